"""Training. For now the paper's small image network; text training builds on the Hugging Face Trainer."""
