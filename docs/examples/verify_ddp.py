import torch, torch.distributed as dist, truestep.torch
dist.init_process_group("gloo")  # started by: torchrun --nproc_per_node 3 verify_ddp.py
ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 8))
optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)
claim = truestep.Problem(ddp.named_parameters(), workers=3, algorithm="adams")  # beta1=0.9, beta2=0.95, weight_decay=0.1
recorder = truestep.torch.Recorder(optimizer, claim, state={"exp_avg": "first_moment"})
ddp.register_comm_hook(None, recorder.comm_hook())  # sees each rank's own gradients, before they are averaged
for step in range(5):
    optimizer.zero_grad()
    ddp(torch.randn(32, 64) + dist.get_rank()).square().mean().backward()
    for state in optimizer.state.values(): state["exp_avg_sq"] = state["exp_avg"].square()  # AdamS: v starts from m squared
    optimizer.step()
recorder.write("run.safetensors")
if dist.get_rank() == 0: print(truestep.verify("run.safetensors", level="rel"))
