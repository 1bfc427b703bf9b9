"""Where numbers come from: profiles, a seeded generator, the benchmark set, and files."""

from goodalloc.data.applications.profiles import load_profile as load_profile
from goodalloc.data.files.instance import read_instance as read_instance
from goodalloc.data.files.instance import write_instance as write_instance
from goodalloc.data.rounds.benchmark_set import benchmark_names as benchmark_names
from goodalloc.data.rounds.benchmark_set import load_benchmark as load_benchmark
from goodalloc.data.rounds.generator import generate as generate
