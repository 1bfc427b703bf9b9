"""What a study is: its plan, its recorded tasks, its report."""
