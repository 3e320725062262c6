"""Act with an exported policy: needs onnxruntime and NumPy, neither torch nor recollect.

python serve_onnx.py policy.onnx        reads observations from stdin, one JSON per line, and prints actions
"""

import json
import sys

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1])
inputs = {port.name: port for port in session.get_inputs()}
kinds = {name: port.type.removeprefix("tensor(").removesuffix(")") for name, port in inputs.items()}
kinds = {name: {"float": "float32", "double": "float64"}.get(kind, kind) for name, kind in kinds.items()}
state = np.zeros((1, inputs["state"].shape[1]), np.float32) if "state" in inputs else None
for line in sys.stdin:
    request = json.loads(line)  # an observation, or a dict of its parts
    parts = request if isinstance(request, dict) else {"observation": request}
    feed = {name: np.asarray(part, kinds[name])[None] for name, part in parts.items()}
    action, *states = session.run(None, feed | ({} if state is None else {"state": state}))
    state = states[0] if states else None  # set it to zeros where an episode begins
    print(json.dumps(action[0].tolist()), flush=True)
