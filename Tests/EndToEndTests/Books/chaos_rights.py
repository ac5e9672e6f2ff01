"""Rights of the workers of a chaos run at their broker: what they may do is denied, and allowed again.

Through librdkafka itself, which Python's confluent-kafka (1.7, Debian) does not ask for this. The workers come as
`User:worker` to a listener of their own (`properties`, `client`); everyone else may do everything.
"""

import ctypes

# rdkafka.h: rd_kafka_ResourceType_t, rd_kafka_AclOperation_t, rd_kafka_AclPermissionType_t, …
TYPES = {"topic": 2, "group": 3, "cluster": 4}
OPERATIONS = {"all": 2, "read": 3, "write": 4, "describe": 8}
DENY, ALLOW = 2, 3
LITERAL = 3
PRODUCER = 0

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


def library():
    kafka = ctypes.CDLL("librdkafka.so.1")
    kafka.rd_kafka_conf_new.restype = ctypes.c_void_p
    for name in ("rd_kafka_new", "rd_kafka_queue_new", "rd_kafka_queue_poll", "rd_kafka_AclBinding_new",
                 "rd_kafka_AclBindingFilter_new", "rd_kafka_event_CreateAcls_result",
                 "rd_kafka_CreateAcls_result_acls", "rd_kafka_acl_result_error"):
        getattr(kafka, name).restype = ctypes.c_void_p
    for name in ("rd_kafka_event_error_string", "rd_kafka_error_string"):
        getattr(kafka, name).restype = ctypes.c_char_p
    return kafka


class Rights:
    def __init__(self, servers):
        self.kafka, self.servers = library(), servers
        self.denied = []

    def allow_everything(self):
        for resource in ("topic", "group", "cluster"):
            self.create(resource, "kafka-cluster" if resource == "cluster" else "*", "all", ALLOW)

    def deny(self, operation, resource, name):
        """Whatever else is allowed; it holds for open connections, too."""
        self.denied.append((resource, name, operation))
        self.create(resource, name, operation, DENY)

    def lift(self):
        """Every denial."""
        while self.denied:
            resource, name, operation = self.denied[-1]
            rule = self.binding(self.kafka.rd_kafka_AclBindingFilter_new, resource, name, operation, DENY)
            self.ask("rd_kafka_DeleteAcls", rule)
            self.denied.pop()

    def create(self, resource, name, operation, permission):
        event = self.ask("rd_kafka_CreateAcls", self.binding(
            self.kafka.rd_kafka_AclBinding_new, resource, name, operation, permission), keep=True)
        kafka, count = self.kafka, ctypes.c_size_t()
        try:
            result = ctypes.c_void_p(kafka.rd_kafka_event_CreateAcls_result(event))
            each = ctypes.cast(
                kafka.rd_kafka_CreateAcls_result_acls(result, ctypes.byref(count)), ctypes.POINTER(ctypes.c_void_p))
            for place in range(count.value):
                if error := kafka.rd_kafka_acl_result_error(ctypes.c_void_p(each[place])):
                    raise OSError(kafka.rd_kafka_error_string(ctypes.c_void_p(error)).decode())
        finally:
            kafka.rd_kafka_event_destroy(event)

    def binding(self, make, resource, name, operation, permission):
        text = ctypes.create_string_buffer(256)
        made = make(TYPES[resource], name.encode(), LITERAL, b"User:worker", b"*", OPERATIONS[operation], permission, text,
                    ctypes.c_size_t(len(text)))
        if not made:
            raise OSError(text.value.decode())
        return ctypes.c_void_p(made)

    def ask(self, call, rule, keep=False):
        """One request of the administrator's; its answer is to be destroyed where it is kept."""
        kafka, text = self.kafka, ctypes.create_string_buffer(256)
        configuration = ctypes.c_void_p(kafka.rd_kafka_conf_new())
        for name, value in ((b"bootstrap.servers", self.servers.encode()), (b"log_level", b"0")):
            kafka.rd_kafka_conf_set(configuration, name, value, text, ctypes.c_size_t(len(text)))
        client = ctypes.c_void_p(kafka.rd_kafka_new(PRODUCER, configuration, text, ctypes.c_size_t(len(text))))
        queue = ctypes.c_void_p(kafka.rd_kafka_queue_new(client))
        try:
            rules = (ctypes.c_void_p * 1)(rule)
            getattr(kafka, call)(client, rules, ctypes.c_size_t(1), None, queue)
            event = kafka.rd_kafka_queue_poll(queue, 30_000)
            if not event:
                raise OSError("the broker says nothing about rights for 30 s")
            event = ctypes.c_void_p(event)
            if kafka.rd_kafka_event_error(event):
                raise OSError((kafka.rd_kafka_event_error_string(event) or b"refused").decode())
            if keep:
                return event
            kafka.rd_kafka_event_destroy(event)
        finally:
            kafka.rd_kafka_AclBinding_destroy(rule)
            kafka.rd_kafka_queue_destroy(queue)
            kafka.rd_kafka_destroy(client)
