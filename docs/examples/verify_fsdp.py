import torch, torch.distributed as dist, truestep.torch
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh
dist.init_process_group("gloo")  # started by: torchrun --nproc_per_node 3 verify_fsdp.py
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 40), torch.nn.ReLU(), torch.nn.Linear(40, 8))
for layer in (model[0], model): fully_shard(layer, mesh=init_device_mesh("cpu", (3,)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)
claim = truestep.Problem(model.named_parameters(), workers=3, algorithm="adams")  # beta1=0.9, beta2=0.95, weight_decay=0.1
recorder = truestep.torch.Recorder(optimizer, claim, state={"exp_avg": "first_moment"}, path="run.rank{rank}.safetensors")
recorder.own_gradients(model)  # each rank's own, before they are reduced; without this line the reduced ones are recorded
for step in range(5):
    optimizer.zero_grad()
    model(torch.randn(32, 64) + dist.get_rank()).square().mean().backward()
    for state in optimizer.state.values(): state["exp_avg_sq"] = state["exp_avg"].square()  # AdamS: no second moment is kept
    optimizer.step()
recorder.close()  # then: truestep verify --level rel run.rank*.safetensors
