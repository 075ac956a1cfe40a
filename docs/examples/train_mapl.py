import torch, torch.distributed as dist, truestep.torch

dist.init_process_group("gloo")  # started by: torchrun --nproc_per_node 2 train_mapl.py
data = torch.Generator().manual_seed(0)                      # the same ids on both ranks
boundary = truestep.torch.mapl.Boundary(64, 8, vocabulary=100)  # and the same boundary: of 64 features 8 travel
first = dist.get_rank() == 0
stage = torch.nn.Embedding(100, 64) if first else torch.nn.Linear(64, 100)
optimizer = torch.optim.Adam(stage.parameters(), lr=0.02)
for step in range(60):
    ids = torch.randint(100, (256,), generator=data)
    optimizer.zero_grad()
    if first:
        z = boundary.send(stage(ids), ids)
        dist.send(z.detach(), 1)
        dz = torch.empty_like(z)
        dist.recv(dz, 1)
        z.backward(dz)
        boundary.step(0.1 * 0.02, receiver=1)  # once all micro-batches are back: the subspace learns, too
    else:
        z = torch.empty(256, 8)
        dist.recv(z, 0)
        xhat = boundary.receive(z.requires_grad_(), ids)
        loss = torch.nn.functional.cross_entropy(stage(xhat), (ids + 1) % 100)
        loss.backward()
        dist.send(z.grad, 0)
        boundary.step(sender=0)
    optimizer.step()
if not first:
    print(f"loss {loss.item():.3f}, without learning 4.605")
