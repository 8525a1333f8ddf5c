"""The prep program: chat template, tokenizer, detokenizer. Small, on the CPU, disposable."""
