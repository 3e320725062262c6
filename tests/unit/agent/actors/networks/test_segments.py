import torch

from recollect.agent.actors.networks.memory import EpisodeSegments

# Two sequences of four steps: an episode begins with step 2 of the first, and with steps 0 and 3 of the second.
BEGINS = torch.tensor([[0, 0, 1, 0], [1, 0, 0, 1]], dtype=torch.bool)
ROWS = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])


def test_sequences_are_cut_where_episodes_begin() -> None:
    assert EpisodeSegments(BEGINS).split(ROWS).tolist() == [[1, 2, 0], [3, 4, 0], [5, 6, 7], [8, 0, 0]]


def test_only_the_first_piece_of_a_sequence_has_its_state() -> None:
    assert EpisodeSegments(BEGINS).split_states(torch.tensor([[10.0], [20.0]])).tolist() == [[10], [0], [20], [0]]


def test_joined_pieces_are_the_sequences() -> None:
    pieces = EpisodeSegments(BEGINS)
    assert torch.equal(pieces.join(pieces.split(ROWS)), ROWS)
