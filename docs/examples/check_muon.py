import torch, torch.distributed as dist, truestep.torch
dist.init_process_group("gloo")  # started by: torchrun --nproc_per_node 3 check_muon.py
ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 8)))
named = list(ddp.named_parameters())
muon = torch.optim.Muon([(name, p) for name, p in named if p.ndim == 2], lr=2e-2)
adamw = torch.optim.AdamW([(name, p) for name, p in named if p.ndim != 2], lr=1e-2)
torch.manual_seed(dist.get_rank())  # each rank's own data
with truestep.torch.checking([muon, adamw], clip_norm=0.1) as run:
    for step in range(5):
        ddp.zero_grad()
        ddp(torch.randn(32, 64)).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(ddp.parameters(), 0.1)
        muon.step()
        adamw.step()
if dist.get_rank() == 0: print(run.result)
