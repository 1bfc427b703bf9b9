"""Policies of Gandiva and AntMan."""
