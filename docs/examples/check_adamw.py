import torch, torch.distributed as dist, truestep.torch
dist.init_process_group("gloo")  # started by: torchrun --nproc_per_node 3 check_adamw.py
ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 8)))
optimizer = torch.optim.AdamW(ddp.named_parameters(), lr=1e-2, weight_decay=0.1)
torch.manual_seed(dist.get_rank())  # each rank's own data
with truestep.torch.checking(optimizer, level="rel") as run:
    for step in range(5):
        optimizer.zero_grad()
        ddp(torch.randn(32, 64)).square().mean().backward()
        optimizer.step()
if dist.get_rank() == 0: print(run.result)
