import torch, torch.distributed as dist, truestep.torch

dist.init_process_group("gloo")  # started by: torchrun --nproc_per_node 3 train_gasloc.py
torch.manual_seed(0)             # all ranks begin with the same parameters
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
optimizer = truestep.torch.GASLoC(model.named_parameters(), lr=1e-2, inner_steps=4, law="two_peers", alpha=0.5)
recorder = truestep.torch.RoundRecorder(optimizer)
torch.manual_seed(dist.get_rank())  # and each rank's own data
for step in range(12):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(torch.randn(32, 64)), torch.randn(32, 8)).backward()
    optimizer.step()  # this rank's own; every fourth averages a little with its neighbours
recorder.write("run.safetensors")  # then: truestep verify run.safetensors
