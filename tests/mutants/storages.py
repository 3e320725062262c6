"""Faults in the storages."""

from typing import Final

from tests.mutants.mutant import Mutant

EXPERIENCE: Final = "agent/storages/experience"
TESTS: Final = "tests/unit/agent/storages"
PROGRAMS: Final = (f"{TESTS}/test_against_reference.py",)
FREQUENCIES: Final = (f"{TESTS}/test_frequencies.py",)
BAD_INPUT: Final = (f"{TESTS}/test_bad_input.py",)
PIECES: Final = (f"{TESTS}/experience/store/test_ring_piece.py", f"{TESTS}/test_snapshots.py")
SKIPS: Final = (f"{TESTS}/off_policy/test_skip.py",)
HINDSIGHT: Final = (f"{TESTS}/experience/sampling/test_hindsight.py",)

MUTANTS = (
    Mutant(
        "ids ignore that the ring has wrapped",
        f"{EXPERIENCE}/kernels/priority_kernels.py",
        "(newest - (age if age >= 0 else age + slots))",
        "(newest - abs(age))",
        PROGRAMS,
    ),
    Mutant(
        "rewards are folded past the end of the ring",
        f"{EXPERIENCE}/kernels/gather_kernels.py",
        """        row = row_after(header, row, lane)
    return total""",
        """        row += header[layout.H_ROW_BYTES]
    return total""",
        PROGRAMS,
    ),
    Mutant(
        "windows cross the end of an episode",
        f"{EXPERIENCE}/kernels/gather_kernels.py",
        "while used < most and load_i32(row + layout.R_TAIL) == 0:",
        "while used < most:",
        PROGRAMS,
    ),
    Mutant(
        "bootstraps at termination",
        f"{EXPERIENCE}/kernels/gather_kernels.py",
        "power if alive else 0.0",
        "power",
        PROGRAMS,
    ),
    Mutant(
        "the discount of a shorter window is that of a full one",
        f"{EXPERIENCE}/kernels/gather_kernels.py",
        "if places[layout.P_USED, item] != length:",
        "if places[layout.P_USED, item] > length:",
        PROGRAMS,
    ),
    Mutant(
        "the next observation of an end is the next episode's first",
        f"{EXPERIENCE}/kernels/gather_kernels.py",
        """        if places[layout.P_TAIL, item] != 0:
            source = places""",
        """        if places[layout.P_TAIL, item] < 0:
            source = places""",
        PROGRAMS,
    ),
    Mutant(
        "the tail of an end comes from the first lane",
        f"{EXPERIENCE}/kernels/append_kernels.py",
        "pending = row_at(header, lane, number)",
        "pending = row_at(header, 0, number)",
        PROGRAMS,
    ),
    Mutant(
        "breaks between observations are not noticed",
        f"{EXPERIENCE}/kernels/append_kernels.py",
        "if goes_on and not _continues(header, carried, sources, lane, number, row, item):",
        "if goes_on and number < 0:",
        PROGRAMS,
    ),
    Mutant(
        "frame stacks reach into the episode before",
        f"{EXPERIENCE}/kernels/append_kernels.py",
        """    if not _is_padding(carried, sources, item):
        if _follows""",
        """    age = min(number, header[layout.H_DEPTH] - 1)
    if number < 0:
        if _follows""",
        PROGRAMS,
    ),
    Mutant(
        "alpha is dropped",
        f"{EXPERIENCE}/kernels/priority_kernels.py",
        "if alpha != 1.0:",
        "if alpha < 0.0:",
        PROGRAMS,
    ),
    Mutant(
        "overwritten slots keep the priority of what was there",
        f"{EXPERIENCE}/kernels/priority_kernels.py",
        """            errors[slot] = default_error
            if has_tree:""",
        """            if seen[0, lane] == 0:
                errors[slot] = default_error
            if has_tree and sums[slot] == 0.0:""",
        PROGRAMS,
    ),
    Mutant(
        "of duplicates the last error wins",
        f"{EXPERIENCE}/kernels/priority_kernels.py",
        "errors[slots[item]] = max(errors[slots[item]], new_errors[item])",
        "errors[slots[item]] = new_errors[item]",
        PROGRAMS,
    ),
    Mutant(
        "stale ids change what has taken their slots",
        f"{EXPERIENCE}/kernels/priority_kernels.py",
        " or number < oldest_of(header, lane):",
        ":",
        PROGRAMS,
    ),
    Mutant(
        "weights of a batch are relative to its first row",
        f"{EXPERIENCE}/kernels/priority_kernels.py",
        "smallest = min(smallest, sums[ids[item]])",
        "smallest = sums[ids[0]]",
        PROGRAMS,
    ),
    Mutant(
        "the promised default error is taken by its number",
        "agent/storages/off_policy/per_buffer.py",
        "if self.default_error == _AS_LARGE_AS_ANY:",
        "if self.default_error < 0.0:",
        PROGRAMS,
    ),
    Mutant(
        "observations that are NaN are stored",
        f"{EXPERIENCE}/kernels/append_kernels.py",
        "                    return layout.NAN_OBSERVATION\n",
        "                    return layout.OK\n",
        (f"{TESTS}/off_policy/test_per_buffer.py",),
    ),
    Mutant(
        "a her_function for single transitions is given batches",
        f"{EXPERIENCE}/sampling/relabelling.py",
        "if self._takes_batches is False:",
        "if self._takes_batches is None:",
        ("tests/contract/test_documented_behaviour.py",),
    ),
    Mutant(
        "a resumed storage has seen no errors",
        "agent/storages/off_policy/per_buffer.py",
        "self._largest_error[0] = largest\n",
        "self._largest_error[0] = 0.0",
        (f"{TESTS}/off_policy/test_per_buffer.py",),
    ),
    Mutant(
        "the physical end of the ring counts as newest",
        f"{EXPERIENCE}/kernels/priority_kernels.py",
        "begin_slot, end_slot = begin % slots, (head_of(header, lane) - 1) % slots + 1",
        "begin_slot, end_slot = slots - 1 - count, slots - 1",
        PROGRAMS,
    ),
    Mutant(
        "every lane gives equally many recent steps",
        f"{EXPERIENCE}/kernels/draw_kernels.py",
        "math.ceil(num_recent * size / total)",
        "math.ceil(num_recent / num_lanes)",
        PROGRAMS,
    ),
    Mutant(
        "the span of updates between episode ends is forgotten",
        f"{EXPERIENCE}/sampling/recent_window.py",
        "self._span, self._drawn = self._drawn, 0",
        "self._drawn = 0",
        PROGRAMS,
    ),
    Mutant(
        "sources share lanes",
        f"{EXPERIENCE}/store/sources.py",
        "        elif not self.known:\n            lane = 0",
        "        elif self.known or not self.known:\n            lane = 0",
        PROGRAMS,
    ),
    Mutant(
        "repeated steps are stored again",
        f"{EXPERIENCE}/store/sources.py",
        "np.minimum(np.maximum(received - begins, 0), num_steps), begins <= received",
        "np.minimum(np.zeros_like(received), num_steps), begins <= received",
        PROGRAMS,
    ),
    Mutant(
        "a gap in a source's steps is no cut",
        f"{EXPERIENCE}/store/sources.py",
        "num_steps), begins <= received)",
        "num_steps), begins >= 0)",
        PROGRAMS,
    ),
    Mutant(
        "a smaller store keeps the oldest steps",
        f"{EXPERIENCE}/kernels/transfer_kernels.py",
        "begin, head, num_new, low = begin + surplus,",
        "begin, head, num_new, low = begin,",
        PROGRAMS,
    ),
    Mutant(
        "a piece's last row keeps the flags of a step that is not in it",
        f"{EXPERIENCE}/kernels/transfer_kernels.py",
        "        store_u8(row + flag, np.uint8(0))\n",
        "        store_u8(row + flag, load_u8(row + flag))\n",
        PIECES,
    ),
    Mutant(
        "stacks of a piece reach beyond its first row",
        f"{EXPERIENCE}/kernels/transfer_kernels.py",
        "        _limit_ages(new, new_lane, new_number, num_rows, age)\n",
        "",
        PIECES,
    ),
    Mutant(
        "a piece joins a stream that breaks before it",
        f"{EXPERIENCE}/kernels/transfer_kernels.py",
        "else span[X_BREAKS] != 0",
        "else False",
        PIECES,
    ),
    Mutant(
        "a skipped row that breaks its stream cuts nothing",
        f"{EXPERIENCE}/store/ring_access.py",
        "                self.ring.cut_lanes([lane + int(env)])\n",
        "                self.ring.cut_lanes([])\n",
        SKIPS,
    ),
    Mutant(
        "lanes that skipped steps share the hidden states of the first",
        f"{EXPERIENCE}/sampling/sequences.py",
        "if (heads == heads[0]).all() and (bases == bases[0]).all():",
        "if len(heads):",
        SKIPS,
    ),
    Mutant(
        "goals come from the past",
        f"{EXPERIENCE}/kernels/hindsight_kernels.py",
        "oldest = number if strategy == FUTURE else begin",
        "oldest = begin",
        PROGRAMS,
    ),
    Mutant(
        "goals come from a later episode",
        f"{EXPERIENCE}/kernels/hindsight_kernels.py",
        "return begin, _entry(ends, entry)",
        "return begin, head_of(header, lane) - 1",
        PROGRAMS,
    ),
    Mutant(
        "a goal reached in hindsight does not end the window",
        f"{EXPERIENCE}/kernels/hindsight_kernels.py",
        "                lengths[row] = index + 1\n",
        "",
        PROGRAMS,
    ),
    Mutant(
        "too few rows are relabelled",
        f"{EXPERIENCE}/sampling/hindsight.py",
        "round(self.share * num_sequences)",
        "int(self.share * num_sequences)",
        PROGRAMS,
    ),
    Mutant(
        "sequences may be incomplete",
        f"{EXPERIENCE}/kernels/draw_kernels.py",
        "last = head_of(header, lane) - length",
        "last = head_of(header, lane) - 1",
        PROGRAMS,
    ),
    Mutant(
        "a reset loses the hidden state of the context",
        f"{EXPERIENCE}/sampling/sequences.py",
        "= recent[lane, numbers % recent.shape[1]]",
        "= 0",
        PROGRAMS,
    ),
    Mutant(
        "batches are overwritten while they are held",
        f"{EXPERIENCE}/sampling/tensor_pool.py",
        """            ):
                return False""",
        """            ):
                return True""",
        PROGRAMS,
    ),
    Mutant(
        "goals are overwritten while a reward function's caller holds them",
        f"{EXPERIENCE}/sampling/relabelling.py",
        "return getrefcount(self._array) == self._references_at_rest",
        "return True",
        HINDSIGHT,
    ),
    Mutant(
        "the right half of a level is never drawn",
        f"{EXPERIENCE}/kernels/priority_kernels.py",
        "while target >= end and node < last:",
        "while target >= end and node < last // 2:",
        FREQUENCIES,
    ),
    Mutant(
        "add takes a truncated step for one that goes on",
        f"{EXPERIENCE}/kernels/append_kernels.py",
        "ended = terminated[env] or truncated[env]",
        "ended = terminated[env]",
        (f"{TESTS}/off_policy/test_own_loop.py",),
    ),
    Mutant(
        "add overwrites the ends of the step before",
        "agent/storages/off_policy/replay_buffer.py",
        "self._was_done[:] = ended",
        "self._was_done = ended",
        (f"{TESTS}/off_policy/test_own_loop.py",),
    ),
    Mutant(
        "infinite rewards are stored",
        f"{EXPERIENCE}/kernels/append_kernels.py",
        "if not math.isfinite(load_number(address, item, code)):",
        "if math.isnan(load_number(address, item, code)):",
        BAD_INPUT,
    ),
    Mutant(
        "goals are not uniform over the future",
        f"{EXPERIENCE}/kernels/hindsight_kernels.py",
        "np.int64(uniforms[row] * (end - oldest + 1))",
        "np.int64(uniforms[row] ** 1.3 * (end - oldest + 1))",
        FREQUENCIES,
    ),
    Mutant(
        "frames written ahead leave stacks that reach back to them",
        f"{EXPERIENCE}/store/lane_ring.py",
        "self.forget(env_lane, oldest_kept + place.depth - 1)",
        "self.forget(env_lane, oldest_kept)",
        (f"{TESTS}/test_columns.py",),
    ),
    Mutant(
        "context of a reset is read back again",
        f"{EXPERIENCE}/store/columns.py",
        "np.maximum(store.ring.firsts[lanes], store.starts.table[layout.A_CONTEXT, lanes])",
        "store.ring.firsts[lanes]",
        PROGRAMS,
    ),
    Mutant(
        "a copy's sequences start anywhere",
        f"{EXPERIENCE}/store/ring_access.py",
        "if starts is not None:",
        "if False:",
        (f"{TESTS}/experience/sampling/test_sequences.py",),
    ),
    Mutant(
        "one answer for a batch stands for all its rows",
        f"{EXPERIENCE}/sampling/relabelling.py",
        "if self._is_constant:",
        "if len(achieved):",
        HINDSIGHT,
    ),
    Mutant(
        "a piece follows on the lane's newest step although its stream breaks",
        f"{EXPERIENCE}/kernels/transfer_kernels.py",
        "if goes_on and (breaks or span[X_FOLLOWS] == 0):",
        "if goes_on and span[X_FOLLOWS] == 0:",
        PIECES,
    ),
    Mutant(
        "a piece after a gap follows on what was before it",
        f"{EXPERIENCE}/kernels/transfer_kernels.py",
        "if goes_on and (breaks or span[X_FOLLOWS] == 0):",
        "if goes_on and breaks:",
        PIECES,
    ),
    Mutant(
        "known steps of a piece are appended again",
        f"{EXPERIENCE}/kernels/transfer_kernels.py",
        "begin, new_head = number + num_known, head + num_new",
        "begin, new_head = number, head + num_new",
        PIECES,
    ),
    Mutant(
        "of too many steps, the oldest are appended",
        f"{EXPERIENCE}/kernels/transfer_kernels.py",
        "begin, head, num_new, low = begin + surplus, head",
        "begin, head, num_new, low = begin, head",
        PIECES,
    ),
    Mutant(
        "the first stack of a piece is padded instead of kept whole",
        f"{EXPERIENCE}/kernels/transfer_kernels.py",
        "        elif number - reach >= low:",
        "        elif number - reach >= number:",
        PIECES,
    ),
    Mutant(
        "the ends of a piece's episodes are not counted",
        f"{EXPERIENCE}/kernels/transfer_kernels.py",
        "new[layout.H_NUM_ENDS] += load_u8(row_at(old, lane, step) + layout.R_ENDED)",
        "new[layout.H_NUM_ENDS] += 0",
        PIECES,
    ),
    Mutant(
        "rewards of a piece are not checked",
        f"{EXPERIENCE}/kernels/transfer_kernels.py",
        "if not math.isfinite(load_number(row + rewards[index, 0], 0, rewards[index, 1])):",
        "if rewards[index, 1] < 0:",
        PIECES,
    ),
    Mutant(
        "whole stacks of a piece's tails may be any",
        f"{EXPERIENCE}/kernels/transfer_kernels.py",
        "if whole != 0 and whole != found[1]:",
        "if whole < 0:",
        PIECES,
    ),
    Mutant(
        "a piece of another number of envs is taken",
        f"{EXPERIENCE}/store/experience_store.py",
        "if len(piece.begins) != self.num_envs:",
        "if len(piece.begins) < 0:",
        PIECES,
    ),
    Mutant(
        "a piece of another schema is taken",
        f"{EXPERIENCE}/store/experience_store.py",
        "if piece.schema != self.ring.schema:",
        "if piece.schema is None:",
        PIECES,
    ),
    Mutant(
        "a piece carries what was in memory before it",
        f"{EXPERIENCE}/store/ring_piece.py",
        "block[row * num_bytes : (row + 1) * num_bytes] = 0",
        "pass",
        PIECES,
    ),
    Mutant(
        "hidden states of a piece are those of its first steps",
        f"{EXPERIENCE}/store/ring_access.py",
        "newest = [values[end - num_new[env] : end, None] for values in states]",
        "newest = [values[: num_new[env], None] for values in states]",
        PIECES,
    ),
    Mutant(
        "a smaller store keeps steps for which it has no room",
        f"{EXPERIENCE}/store/lane_ring.py",
        "firsts = np.maximum(old.firsts[lanes], heads - self.capacity)",
        "firsts = old.firsts[lanes]",
        PROGRAMS,
    ),
)
