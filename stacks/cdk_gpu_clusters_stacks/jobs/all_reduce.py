"""The smallest program of PyTorch over several nodes: what jobs run until they have a program of their own."""

ALL_REDUCE = (
    "import os, torch, torch.distributed as dist; dist.init_process_group('nccl'); "
    "torch.cuda.set_device(int(os.environ['LOCAL_RANK'])); one = torch.ones(1, device='cuda'); dist.all_reduce(one); "
    "print(f'{int(one)} processes, this is {dist.get_rank()}'); dist.destroy_process_group()"
)
