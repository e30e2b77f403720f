"""What can be asked: today a model run here with transformers."""
