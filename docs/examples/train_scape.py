import torch, torch.distributed as dist, truestep.torch

dist.init_process_group("gloo")  # started by: torchrun --nproc_per_node 3 train_scape.py
torch.manual_seed(0)             # the same parameters on all ranks
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
optimizer = truestep.torch.Scape(model.named_parameters(), lr=1e-2, density=0.05)
recorder = truestep.torch.Recorder(optimizer)
torch.manual_seed(dist.get_rank())  # and each rank's own data
for step in range(5):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(torch.randn(32, 64)), torch.randn(32, 8)).backward()
    optimizer.step()  # gradients are not averaged before: the step does, on the mask
recorder.write("run.safetensors")  # then: truestep verify run.safetensors
