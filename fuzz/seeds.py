"""Fill fuzz/corpus with the documents of bson-corpus, so that fuzzing starts from every type.

Reads the folder that MONGODB_SPECIFICATIONS names; without it, fuzzing starts from nothing and takes longer.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path


def main(target: str) -> None:
    specifications = os.environ.get("MONGODB_SPECIFICATIONS")
    if specifications is None:
        sys.exit(f"{target}: no seeds, MONGODB_SPECIFICATIONS names no folder")
    folder = Path(__file__).parent / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    for path in Path(specifications, "bson-corpus", "tests").glob("*.json"):
        suite = json.loads(path.read_text("utf-8"))
        for case in suite.get("valid", []) + suite.get("decodeErrors", []):
            seeds = [bytes.fromhex(case[key]) for key in ("canonical_bson", "bson") if key in case]
            if target == "bson_roundtrip" and "canonical_extjson" in case:
                seeds.append(case["canonical_extjson"].encode())
            for seed in seeds:
                (folder / hashlib.sha1(seed).hexdigest()).write_bytes(seed)


if __name__ == "__main__":
    main(sys.argv[1])
