"""Where numbers come from: profiles, a seeded generator, the benchmark set, and files."""

from goodalloc.data.benchmark_set import benchmark_names as benchmark_names
from goodalloc.data.benchmark_set import load_benchmark as load_benchmark
from goodalloc.data.generator import generate as generate
from goodalloc.data.instance_file import read_instance as read_instance
from goodalloc.data.instance_file import write_instance as write_instance
from goodalloc.data.profiles import load_profile as load_profile
