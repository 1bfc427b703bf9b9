"""The applications of Pollux and Sia: shipped profiles and the artifacts' measurements."""
