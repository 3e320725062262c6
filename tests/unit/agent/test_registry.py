import pytest

from recollect.agent.algorithms import ALGORITHMS, Algorithm
from recollect.errors import ConfigError


def test_the_algorithms_by_name() -> None:
    assert {"ddqn", "ddpg", "td3", "sac", "sac-discrete", "mpo", "ppo"} <= set(ALGORITHMS)
    for name, algorithm in ALGORITHMS.items():
        assert issubclass(algorithm, Algorithm)
        assert algorithm.__name__.lower() == name.replace("-", "")


def test_an_unknown_name_is_no_key() -> None:
    assert "dqn" not in ALGORITHMS
    with pytest.raises(KeyError):
        ALGORITHMS["dqn"]


def test_an_unknown_name_is_refused_with_the_closest() -> None:
    assert ALGORITHMS.find("td3") is ALGORITHMS["td3"]
    with pytest.raises(ConfigError, match=r"there is no algorithm 'dqn'; did you mean 'ddqn'\?"):
        ALGORITHMS.find("dqn")


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_every_option_says_what_it_is_for(name: str) -> None:
    docs = ALGORITHMS[name].config_class.docs()
    assert all(doc.endswith(".") for doc in docs.values()), docs
