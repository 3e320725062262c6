from tests.unit.agent.algorithms.off_policy.agents import make_agent, make_batch


def test_policy_and_targets_move_every_other_update() -> None:
    agent = make_agent("td3")
    actor, batch = agent.actor, make_batch(agent)
    moved = []
    for _ in range(4):
        before = {name: weight.clone() for name, weight in actor.named_parameters()}
        agent.algo.compute_gradients(batch)
        agent.algo.apply_gradients()
        moved.append(
            {name.split(".")[0] for name, weight in actor.named_parameters() if (weight != before[name]).any()}
        )
    everything = {"critics", "policy", "target_critics", "target_policy"}
    assert moved == [{"critics"}, everything, {"critics"}, everything]
