"""Makes /opt/hub: the cache of a hub with one model, of the architecture that its name has there, tiny and untrained.

It runs where the nodes' image is made. `from_pretrained("Qwen/Qwen2.5-0.5B")` then works as it does with the hub.
"""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

NAME, REVISION = "Qwen/Qwen2.5-0.5B", "0" * 40
# Each byte is a token.
ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
HUB = Path("/opt/hub/hub") / f"models--{NAME.replace('/', '--')}"

tokenizer = Tokenizer(models.BPE(vocab={letter: index for index, letter in enumerate(ALPHABET)}, merges=[]))
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
folder = HUB / "snapshots" / REVISION
folder.mkdir(parents=True)
PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "tie_word_embeddings": True}
Qwen2ForCausalLM(Qwen2Config(vocab_size=len(ALPHABET), **shape, **heads)).save_pretrained(folder)
for file in folder.iterdir():
    file.chmod(0o644)  # jobs read it, as a user of their own
(HUB / "refs").mkdir()
(HUB / "refs" / "main").write_text(REVISION)
