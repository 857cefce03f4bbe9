"""NVIDIA's management library (NVML) in this process: it answers in place of `nvidia-smi`, in the same words."""
