"""Training-loss curves: models, fits, extrapolation and forecasts."""
