"""Networks that run once per group: any Hugging Face encoder, or any `nn.Module`."""
