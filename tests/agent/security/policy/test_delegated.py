from agent.security.policy.base import Decision, LimitsHosts, LimitsPaths, ToolRequest
from agent.security.policy.engine import DelegatedPolicy, PrincipalContext, RolePolicy
from agent.security.policy.roles import Role, ToolRule


class Plain:
    def decide(self, request: ToolRequest) -> Decision:
        return Decision("allow", "x", "x")


def test_delegate_sees_no_more_than_its_caller() -> None:
    role = Role("reader", {"grep": ToolRule(paths=("docs/**",), hosts=("example.org",))})
    tightened = DelegatedPolicy(RolePolicy(PrincipalContext(role)), "plan")
    assert isinstance(tightened, LimitsPaths)
    assert isinstance(tightened, LimitsHosts)
    assert tightened.paths("grep") == (("docs/**",),)
    assert tightened.hosts("grep") == ("example.org",)
    assert tightened.paths("glob") == ((),)


def test_policy_without_scopes_sets_no_limits() -> None:
    assert DelegatedPolicy(Plain(), "plan").paths("grep") == ()
    assert DelegatedPolicy(Plain(), "plan").hosts("grep") is None
