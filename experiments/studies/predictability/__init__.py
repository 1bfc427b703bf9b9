"""Which jobs can be predicted: classifiers and their scores."""
