"""Pods and nodes of Alibaba's openb cluster, published and generated."""
