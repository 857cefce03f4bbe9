"""Kubernetes objects of GPU clusters: plain values in, objects as Kubernetes takes them out."""
