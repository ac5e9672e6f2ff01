"""Rights of the workers of a chaos run at their broker: what they may do is denied, and allowed again, by Kafka's own program.

The workers come as `User:worker` to a listener of their own (`PROPERTIES`, `CLIENT`); everyone else may do everything.
"""

import subprocess

PROPERTIES = """\
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
allow.everyone.if.no.acl.found=false
sasl.enabled.mechanisms=PLAIN
listener.name.worker.sasl.enabled.mechanisms=PLAIN
listener.name.worker.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
user_worker="worker-secret";
"""
CLIENT = ("{security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, sasl.username: worker, "
          "sasl.password: worker-secret}")


class Rights:
    def __init__(self, broker):
        self.broker = broker
        self.denied = []

    def allow_everything(self):
        for resource in (["--topic", "*"], ["--group", "*"], ["--cluster"]):
            self.ask("--add", "--allow-principal", "User:worker", "--operation", "All", *resource)

    def deny(self, operation, resource, name):
        """Whatever else is allowed; it holds for open connections, too."""
        rule = ["--deny-principal", "User:worker", "--operation", operation.capitalize(), f"--{resource}", name]
        self.denied.append(rule)
        self.ask("--add", *rule)

    def lift(self):
        """Every denial."""
        while self.denied:
            self.ask("--remove", "--force", *self.denied[-1])
            self.denied.pop()

    def ask(self, *words):
        subprocess.run(
            [*self.broker.java, "org.apache.kafka.tools.AclCommand", "--bootstrap-server", self.broker.servers, *words],
            check=True, stdout=subprocess.DEVNULL, timeout=120)
