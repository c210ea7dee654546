"""Text generation with Hugging Face's GPT-2: the peer of `generate.py`, run by the Python of the comparisons."""

from __future__ import annotations

import argparse
import os

import numpy as np

from numjax.bundled.experiments.benchmarks import pairs

# Everything is made here; nothing is downloaded.
os.environ["HF_HUB_OFFLINE"] = "1"

import torch  # type: ignore[import-not-found]
import transformers  # type: ignore[import-not-found]


def load(model, path: str) -> None:
    """Loads the parameters that numjax saved into the model, so that both write the same text."""
    arrays, config = np.load(path), model.config
    weights = {
        "transformer.wte.weight": arrays["embeds_token/table"][: config.vocab_size],
        "transformer.wpe.weight": arrays["backbone/order_sequence/places"],
        "transformer.ln_f.weight": arrays["backbone/ln_f_scale"],
        "transformer.ln_f.bias": arrays["backbone/ln_f_bias"],
    }
    # Both keep kernels as (in, out); heads are one axis here and two there.
    names = {"attn.c_attn": "qkv", "attn.c_proj": "out", "mlp.c_fc": "up", "mlp.c_proj": "down"}
    for layer in range(config.n_layer):
        their_prefix, our_prefix = f"transformer.h.{layer}.", f"backbone/layer_{layer}/"
        for name in ("ln_1", "ln_2"):
            weights[f"{their_prefix}{name}.weight"] = arrays[f"{our_prefix}{name}_scale"]
            weights[f"{their_prefix}{name}.bias"] = arrays[f"{our_prefix}{name}_bias"]
        for name, our_name in names.items():
            bias = arrays[f"{our_prefix}{our_name}_bias"].reshape(-1)
            weights[f"{their_prefix}{name}.bias"] = bias
            weights[f"{their_prefix}{name}.weight"] = arrays[f"{our_prefix}{our_name}_kernel"].reshape(-1, len(bias))
    tensors = {name: torch.from_numpy(np.ascontiguousarray(x)) for name, x in weights.items()}
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()


class Mask(transformers.LogitsProcessor):
    """Forbids tokens that may not follow the class of the last token; token v has class v mod `classes`.

    That class and the next half of the other classes may follow, as in `beam.py`.
    """

    def __init__(self, vocab: int, classes: int):
        class_of = torch.arange(vocab) % classes
        offset = (class_of[None] - torch.arange(classes)[:, None]) % classes
        self.classes, self.forbidden = classes, offset > classes // 2

    def __call__(self, input_ids, scores):
        return scores.masked_fill(self.forbidden[input_ids[:, -1] % self.classes], -torch.inf)


def main() -> None:
    """Serves a contender: a turn generates the whole batch, greedily or with beams, with a key-value cache."""
    parser = argparse.ArgumentParser()
    for name in ("vocab", "width", "layers", "heads", "length", "new"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--beams", type=int, default=1)
    parser.add_argument("--classes", type=int, default=0, help="of the mask; 0 for none")
    parser.add_argument("--parameters", required=True, help="an .npz that numjax saved")
    parser.add_argument("--prompts", required=True, help="an .npy of ids")
    options = parser.parse_args()
    config = transformers.GPT2Config(
        vocab_size=options.vocab,
        n_positions=options.length,
        n_embd=options.width,
        n_layer=options.layers,
        n_head=options.heads,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    load(model, options.parameters)
    prompts = torch.from_numpy(np.load(options.prompts).astype(np.int64))
    settings = transformers.GenerationConfig(
        max_new_tokens=options.new, do_sample=False, use_cache=True, eos_token_id=None, pad_token_id=0,
        num_beams=options.beams, length_penalty=0.0,
    )  # fmt: skip
    extra_options = {"logits_processor": [Mask(options.vocab, options.classes)]} if options.classes else {}

    def turn(times: int):
        for _ in range(times):
            mask = torch.ones_like(prompts)
            output_ids = model.generate(prompts, attention_mask=mask, generation_config=settings, **extra_options)
        return {"written": output_ids[:, prompts.shape[1] :].tolist()}

    turn(1)
    pairs.serve(turn, version=f"transformers {transformers.__version__}, torch {torch.__version__}")


if __name__ == "__main__":
    main()
