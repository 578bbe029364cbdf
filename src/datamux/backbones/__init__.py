"""Networks that run once a group: any Hugging Face encoder, the paper's image networks, any `nn.Module`."""
