@testable import Configuration
import Testing

/// One invalid line in an otherwise valid file, and the expected error.
struct Wrong: Sendable, CustomTestStringConvertible {
    /// Replaces a section of `minimal`, or is appended to it.
    var text: String
    var error: String

    var testDescription: String { text }

    /// Reads a table of wrong lines, each followed by its error, indented and without the file's name. `<a|b>` stands
    /// for two lines, one with `a` and one with `b`. `<>` in their error is that text.
    static func table(_ rows: String) -> [Self] {
        var found: [Self] = []
        for line in rows.split(separator: "\n") {
            if line.hasPrefix("    ") {
                found[found.count - 1].error += (found.last?.error == "w.yaml:" ? "" : " ") + line.dropFirst(4)
            } else {
                found.append(Self(text: String(line), error: "w.yaml:"))
            }
        }
        return found.flatMap(\.variants)
    }

    private var variants: [Self] {
        guard let choice = text.firstMatch(of: /<(.*)>/) else { return [self] }
        return choice.1.split(separator: "|", omittingEmptySubsequences: false).map {
            Self(text: text.replacing(choice.0, with: $0), error: error.replacing("<>", with: $0))
        }
    }
}

/// `minimal` is five lines long, so an added section begins in line 6.
@Suite struct ErrorTests {
    @Test(
        arguments: Wrong.table(
            #"""
            deliveri: {}
                6:1: deliveri: unknown key; did you mean delivery?
            conections: {max: 3}
                6:1: conections: unknown key; did you mean apps[0].connections?
            max_open: 3
                6:1: max_open: unknown key; did you mean delivery.max_open?
            zzz: {}
                6:1: zzz: unknown key; valid keys: admin, apps, crash, dead_letters, delivery, drain, kafka, log, requests,
                results, retry, unregistered
            delivery: {response_timout: 3s}
                6:12: delivery.response_timout: unknown key; did you mean response_timeout?
            delivery: {Max_Age: 3s}
                6:12: delivery.Max_Age: unknown key; did you mean max_age?
            delivery: 5
                6:11: delivery: expected a mapping, found a single value
            delivery: []
                6:11: delivery: expected a mapping, found a list
            kafka: {}
                6:1: the key kafka occurs twice, first in line 1
            delivery: {max_age: <24|1d|1ms>}
                6:21: delivery.max_age: expected a duration (ms, s, m or h) from 1s to 8760h, or 0, found "<>"
            delivery: {response_timeout: <0|-3s>}
                6:30: delivery.response_timeout: expected a duration (ms, s, m or h) from 10ms to 10m, found "<>"
            delivery: {max_open_bytes: 16MB}
                6:28: delivery.max_open_bytes: expected a size (KiB, MiB or GiB) from 64KiB to 64GiB, found "16MB"
            delivery: {commit_interval: 2m}
                6:29: delivery.commit_interval: expected a duration (ms, s, m or h) from 1ms to 1m, found "2m"
            delivery: {max_open: <0|2.5|+5>}
                6:22: delivery.max_open: expected a whole number from 1 to 1000000, found "<>"
            delivery: {max_open: }
                6:22: delivery.max_open: has no value; expected a whole number from 1 to 1000000
            delivery: {max_open: [1]}
                6:22: delivery.max_open: expected a whole number from 1 to 1000000, found a list
            delivery: {ordering: devise}
                6:22: delivery.ordering: expected one of device, none, found "devise"
            delivery: {verdicts: {Shutdwn: retry}}
                6:23: delivery.verdicts.Shutdwn: unknown reason; did you mean Shutdown?
            delivery: {verdicts: {BadDeviceToken: resend}}
                6:23: delivery.verdicts.BadDeviceToken: Apple says not to send a notification again after this reason;
                to send it anyway, use delivery.verdicts_unsafe
            delivery: {verdicts: {PayloadTooLarge: retry}}
                6:23: delivery.verdicts.PayloadTooLarge: Apple says not to send a notification again after this reason;
                to send it anyway, use delivery.verdicts_unsafe
            delivery: {verdicts: {Shutdown: again}}
                6:33: delivery.verdicts.Shutdown: expected one of accept, unregister, reject, resend, retry,
                credential_fault, found "again"
            unregistered: {include_bad_tokens: <yes|True>}
                6:36: unregistered.include_bad_tokens: expected true or false, found "<>"
            results: {topic: <a b|..>}
                6:18: results.topic: expected a topic's name: 1 to 249 letters, digits, dots, hyphens or underscores, found
                "<>"
            results: {topic: ''}
                6:18: results.topic: must not be empty
            results: {copy_headers: [request, outcome]}
                6:35: results.copy_headers[1]: results have their own header outcome
            results: {copy_headers: [a, apns-topic]}
                6:29: results.copy_headers[1]: "apns-topic" is one of Apple's headers, which are not copied to results;
                use a different header to distinguish results, such as x-campaign
            results: {copy_headers: [Push-App]}
                6:26: results.copy_headers[0]: "Push-App" is reserved for the worker; use a different header to
                distinguish results, such as x-campaign
            crash: restart
                6:8: crash: expected one of contain, core, found "restart"
            drain: {rebalance: 296s}
                6:20: drain.rebalance: drain.rebalance (296s) plus 5 s for the last commit must not exceed
                max.poll.interval.ms (300000 ms), or the group removes the worker while it drains; shorten
                drain.rebalance, or set max.poll.interval.ms under kafka.consumer
            results: {copy_headers: [a, a]}
                6:29: results.copy_headers[1]: "a" occurs twice
            requests: {topics: []}
                6:20: requests.topics: must have at least one value
            requests: {topics: a}
                6:20: requests.topics: expected a list, found a single value
            requests: {topics: [a, a]}
                6:24: requests.topics[1]: "a" occurs twice
            requests: {topics: [{weight: 3}]}
                6:21: requests.topics[0].name: is missing
            requests: {topics: [{name: a, wait: 3}]}
                6:31: requests.topics[0].wait: unknown key; valid keys: app, name, weight
            requests: {topics: [{name: a, weight: 0}]}
                6:39: requests.topics[0].weight: expected a whole number from 1 to 1000, found "0"
            requests: {topics: [{name: a, app: shpo}]}
                6:36: requests.topics[0].app: no app has the name "shpo"; did you mean "shop"?
            requests: {topics: ['^a(']}
                6:21: requests.topics[0]: "^a(" is not a POSIX extended regular expression: Unmatched ( or \(
            requests: {topics: [apns.results]}
                6:21: requests.topics[0]: the topic apns.results is already used as results.topic
            requests: {topics: ['^apns\.re[qs]']}
                6:21: requests.topics[0]: the pattern "^apns\.re[qs]" also matches apns.results, to which the worker
                writes (results.topic)
            requests: {topics: [__consumer_offsets]}
                6:21: requests.topics[0]: __consumer_offsets is an internal topic of Kafka and cannot be a request topic
            dead_letters: {topic: apns.results}
                6:23: dead_letters.topic: the topic apns.results is already used as results.topic
            results: {topic: apns.retry.2h}
                6:18: results.topic: the topic apns.retry.2h is already used as retry.tiers.2h
            results: {topic: apns.requests}
                6:18: results.topic: the topic apns.requests is already used as requests.topics[0]
            retry: {tiers: {}}
                6:16: retry.tiers: must have 1 to 16 tiers, such as {30s: apns.retry.30s}
            retry: {tiers: {<soon|0>: a}}
                6:17: retry.tiers.<>: the name of a tier must be its delay, from 1ms to 168h, such as 30s; found "<>"
            retry: {tiers: {60s: a, 1m: b}}
                6:25: retry.tiers.1m: has the same delay as the tier 60s
            retry: {tiers: {30s: a, 15m: a}}
                6:30: retry.tiers.15m: the topic a is already used as retry.tiers.30s
            retry: {tiers: {30s: apns.retry.15m}}
                6:22: retry.tiers.30s: the topic's name ends in 15m, but its tier is 30s
            retry: {max_attempts: 0}
                6:23: retry.max_attempts: expected a whole number from 1 to 100, found "0"
            drain: {shutdown: 1ms}
                6:19: drain.shutdown: expected a duration (ms, s, m or h) from 100ms to 1h, found "1ms"
            log: {level: warn}
                6:14: log.level: expected one of trace, debug, info, notice, warning, error, critical, found "warn"
            log: {parts: {kafak: debug}}
                6:15: log.parts.kafak: unknown key; did you mean kafka?
            admin: {listen: '<9464|::1:9464|localhost:65536>'}
                6:17: admin.listen: expected host:port, such as 127.0.0.1:9464 or [::1]:9464, or off, found "<>"
            admin: {listn: off}
                6:9: admin.listn: unknown key; did you mean listen?
            drain: *x
                6:8: aliases (*) are not supported
            requests: {topics: [a, ${TOPIC}]}
                6:25: not valid YAML: did not find expected ',' or ']' while parsing a flow sequence
            results: {topic: é${TOPIC:-a}}
                6:20: not valid YAML: did not find expected ',' or '}' while parsing a flow mapping
            requests: {topics: ["${TOPIC}" {
                6:32: not valid YAML: did not find expected ',' or ']' while parsing a flow sequence
            drain: {
                7:1: not valid YAML: did not find expected node content while parsing a flow node
            results: {topic: "a\nb\u009b"}
                6:18: results.topic: expected a topic's name: 1 to 249 letters, digits, dots, hyphens or underscores, found
                "a\nb\u{9b}"
            """#))
    func `Each error in a section is one line`(wrong: Wrong) {
        #expect(errors(minimal + wrong.text + "\n") == [wrong.error])
    }

    @Test(
        arguments: Wrong.table(
            #"""
            {}
                1:8: kafka.bootstrap_servers: is missing
            {bootstrap_servers: ''}
                1:28: kafka.bootstrap_servers: must not be empty
            {bootstrap_servers: '<a,,b|a:b>'}
                1:28: kafka.bootstrap_servers: expected a comma-separated list of host:port, found "<>"
            {bootstrap_servers: [a]}
                1:28: kafka.bootstrap_servers: expected a comma-separated list of host:port, found a list
            {bootstrap_servers: a, assignment: cooperativ}
                1:43: kafka.assignment: expected one of eager, cooperative, found "cooperativ"
            {bootstrap_servers: a, create_topics: yes}
                1:46: kafka.create_topics: expected false, true or {partitions: …, replication_factor: …}, found "yes"
            {bootstrap_servers: a, create_topics: {partition: 3}}
                1:47: kafka.create_topics.partition: unknown key; did you mean partitions?
            {bootstrap_servers: a, oauth: {command: a}}
                1:38: kafka.oauth: needs security.protocol: sasl_ssl under kafka.librdkafka
            {bootstrap_servers: a, session_timeout: 10}
                1:48: kafka.session_timeout: expected a duration (ms, s, m or h) from 1s to 1h, found "10"
            {bootstrap_servers: a, session_timeout: 3s, consumer: {heartbeat.interval.ms: 3000}}
                1:86: kafka.consumer.heartbeat.interval.ms: heartbeat.interval.ms (3000 ms) must be below session_timeout
                (3s), or the group removes the worker between two heartbeats; under kafka.consumer, set
                heartbeat.interval.ms to about a third of session_timeout
            {bootstrap_servers: a, librdkafka: {max.poll.interval.ms: 9000000}, consumer: {max.poll.interval.ms: 20000}}
                1:109: kafka.consumer.max.poll.interval.ms: drain.rebalance (30s) plus 5 s for the last commit must not
                exceed max.poll.interval.ms (20000 ms), or the group removes the worker while it drains; shorten
                drain.rebalance, or set max.poll.interval.ms under kafka.consumer
            {bootstrap_servers: a, librdkafka: {acks: [1]}}
                1:50: kafka.librdkafka.acks: expected a text, found a list
            {bootstrap_servers: a, librdkafka: {sasl.password_file: /nonexistent}}
                1:64: kafka.librdkafka.sasl.password_file: cannot read /nonexistent: No such file or directory
            """#))
    func `Each error in the kafka section is one line`(wrong: Wrong) {
        let text = minimal.replacing("{bootstrap_servers: \"localhost:9092\"}", with: wrong.text)
        #expect(errors(text) == [wrong.error])
    }

    @Test(
        arguments: Wrong.table(
            #"""
            nam: x
                4:5: apps[0].nam: unknown key; did you mean name?
            transport: udp
                4:16: apps[0].transport: expected one of http2, binary, found "udp"
            binary: {<feedback: {host: h}|format: simple>}
                4:13: apps[0].binary: needs transport: binary; the default transport is HTTP/2
            proxy: '<https://proxy:3128|http://user:secret@proxy|http://user:se%zzcret@proxy:1|http://proxy:0>'
                4:12: apps[0].proxy: expected http://host:port, or http://user:password@host:port
            prxy: http://proxy:3128
                4:5: apps[0].prxy: unknown key; did you mean proxy?
            proxy_file: /nonexistent
                4:17: apps[0].proxy_file: cannot read /nonexistent: No such file or directory
            rate_limit: -1
                4:17: apps[0].rate_limit: expected a whole number from 0 to 10000000, found "-1"
            paused: yes
                4:13: apps[0].paused: expected true or false, found "yes"
            environment_guard: strict
                4:24: apps[0].environment_guard: expected one of warn, hold, off, found "strict"
            broadcast: {manage_port: 0}
                4:30: apps[0].broadcast.manage_port: expected a whole number from 1 to 65535, found "0"
            broadcast: {manage_hst: localhost}
                4:17: apps[0].broadcast.manage_hst: unknown key; did you mean manage_host?
            certificate: {file: c.pem}
                4:18: apps[0].certificate: give either a token or a certificate, not both
            environment: sandbox
                4:18: apps[0].environment: expected one of production, development, found "sandbox"
            host: <https://api.push.apple.com|api.push.apple.com:443>
                4:11: apps[0].host: expected a host's name or address, without https:// and port, found "<>"
            port: 65536
                4:11: apps[0].port: expected a whole number from 1 to 65535, found "65536"
            connections: {min: 9}
                4:18: apps[0].connections: min (9) must not exceed max (8)
            tls: {verfy: false}
                4:11: apps[0].tls.verfy: unknown key; did you mean verify?
            """#))
    func `Each error in an app is one line`(wrong: Wrong) {
        let text = minimal.replacing("    bundle_ids", with: "    \(wrong.text)\n    bundle_ids")
        #expect(errors(text) == [wrong.error])
    }

    @Test(
        arguments: Wrong.table(
            #"""
            []
                2:7: apps: must have at least one value
            {name: a}
                2:7: apps: expected a list, found a mapping
            [a]
                2:8: apps[0]: expected a mapping, found a single value
            [{bundle_ids: [a], TOKEN}]
                2:8: apps[0].name: is missing
            [{name: a b, bundle_ids: [a], TOKEN}]
                2:15: apps[0].name: expected 1 to 100 letters, digits, dots, hyphens or underscores, found "a b"
            [{name: a, TOKEN}]
                2:8: apps[0].bundle_ids: is missing
            [{name: a, bundle_ids: [], TOKEN}]
                2:30: apps[0].bundle_ids: must have at least one value
            [{name: a, bundle_ids: [<a/b|a..b>], TOKEN}]
                2:31: apps[0].bundle_ids[0]: expected a bundle id: letters, digits, dots, hyphens, such as com.example.shop,
                found "<>"
            [{name: a, bundle_ids: [a, a], TOKEN}]
                2:34: apps[0].bundle_ids[1]: "a" occurs twice
            [{name: a, bundle_ids: [a], TOKEN}, {name: a, bundle_ids: [a], TOKEN}]
                2:106: apps[1].name: another app has the name "a"
            [{name: a, bundle_ids: [a], other_environment: dev-b, TOKEN}, {name: dev-a, bundle_ids: [a], environment: development, TOKEN}]
                2:54: apps[0].other_environment: no app has the name "dev-b"; did you mean "dev-a"?
            [{name: a, bundle_ids: [a], other_environment: a, TOKEN}]
                2:54: apps[0].other_environment: the app "a" is in production, like this app; name an app of the other
                environment
            [{name: a, bundle_ids: [a], other_environment: b, TOKEN}, {name: b, bundle_ids: [b, c], environment: development, TOKEN}]
                2:54: apps[0].other_environment: the app "b" lacks the bundle id a, which this app has
            [{name: a, bundle_ids: [a], other_environment: [b], TOKEN}]
                2:54: apps[0].other_environment: expected the name of an app, found a list
            [{name: a, bundle_ids: [a]}]
                2:8: apps[0].token: is missing; an app needs a token or a certificate
            [{name: a, bundle_ids: [a], certificate: {}}]
                2:48: apps[0].certificate.file: is missing; a certificate needs file, pem, pkcs12_file or pkcs12
            [{name: a, bundle_ids: [a], certificate: {file: a.pem, key_fiel: k}}]
                2:62: apps[0].certificate.key_fiel: unknown key; did you mean key_file?
            [{name: a, bundle_ids: [a], certificate: {file: a.pem, pkcs12_file: a.p12}}]
                2:75: apps[0].certificate.pkcs12_file: give only one of file, pem, pkcs12_file and pkcs12
            [{name: a, bundle_ids: [a], certificate: {pkcs12_file: a.p12, key_file: k}}]
                2:79: apps[0].certificate.key_file: a PKCS#12 file also contains the key
            [{name: a, bundle_ids: [a], certificate: {file: a.pem, key: k, key_file: k}}]
                2:80: apps[0].certificate.key_file: give either key or key_file
            [{name: a, bundle_ids: [a], certificate: {file: a.pem, passphrase: p, passphrase_file: p}}]
                2:94: apps[0].certificate.passphrase_file: give either passphrase or passphrase_file
            [{name: a, bundle_ids: [a], certificate: {pem: ''}}]
                2:54: apps[0].certificate.pem: must not be empty
            [{name: a, bundle_ids: [a], certificate: a.pem}]
                2:48: apps[0].certificate: expected a mapping, found a single value
            [{name: a, bundle_ids: [a], token: {key_id: ABC123DEFG, team_id: TEAM123456}}]
                2:42: apps[0].token.key_file: is missing
            [{name: a, bundle_ids: [a], token: {key: hidden, key_file: k, key_id: ABC123DEFG, team_id: TEAM123456}}]
                2:66: apps[0].token.key_file: give either key or key_file
            [{name: a, bundle_ids: [a], token: {key: '', key_id: ABC123DEFG, team_id: TEAM123456}}]
                2:48: apps[0].token.key: must not be empty
            [{name: a, bundle_ids: [a], token: {key_file: k, key_id: ABC123DEFG}}]
                2:42: apps[0].token.team_id: is missing
            [{name: a, bundle_ids: [a], token: {key_file: k, key_id: ABC-123DEF, team_id: TEAM123456}}]
                2:64: apps[0].token.key_id: expected an id of 10 letters and digits, found "ABC-123DEF"
            """#))
    func `Each error in the list of apps is one line`(wrong: Wrong) {
        let token = "token: {key_file: k, key_id: ABC123DEFG, team_id: TEAM123456}"
        let text = "kafka: {bootstrap_servers: a}\napps: \(wrong.text.replacing("TOKEN", with: token))\n"
        #expect(errors(text) == [wrong.error])
    }

    @Test(arguments: [
        ("", ["w.yaml: the file is empty"]),
        ("# nothing\n", ["w.yaml: the file is empty"]),
        ("[]", ["w.yaml:1:1: expected a mapping, found a list"]),
        ("delivery: {}", ["w.yaml:1:1: kafka.bootstrap_servers: is missing", "w.yaml:1:1: apps: is missing"]),
    ])
    func `A file that is not a configuration is refused`(text: String, expected: [String]) {
        #expect(errors(text) == expected)
    }

    @Test func `All errors are listed in the order of the file`() {
        let text = """
            kafka: {group: x}
            delivery:
              max_open: none
              max_open: 3
              ordring: device
            requests: {topics: [apns.results]}
            apps:
              - {name: a, bundle_ids: [b], token: {key_file: k}}
              - {name: a, bundle_ids: [b], paused: yes, token: {key_file: k, key_id: x, team_id: TEAM123456}}
            aps: {}
            """
        #expect(
            errors(text) == [
                "w.yaml:1:8: kafka.bootstrap_servers: is missing",
                "w.yaml:1:9: kafka.group: unknown key; valid keys: assignment, bootstrap_servers, consumer, create_topics, "
                    + "group_id, group_instance_id, librdkafka, oauth, producer, session_timeout",
                "w.yaml:3:13: delivery.max_open: expected a whole number from 1 to 1000000, found \"none\"",
                "w.yaml:4:3: the key max_open occurs twice, first in line 3",
                "w.yaml:5:3: delivery.ordring: unknown key; did you mean ordering?",
                "w.yaml:6:21: requests.topics[0]: the topic apns.results is already used as results.topic",
                "w.yaml:8:39: apps[0].token.key_id: is missing",
                "w.yaml:8:39: apps[0].token.team_id: is missing",
                "w.yaml:9:12: apps[1].name: another app has the name \"a\"",
                "w.yaml:9:40: apps[1].paused: expected true or false, found \"yes\"",
                "w.yaml:9:74: apps[1].token.key_id: expected an id of 10 letters and digits, found \"x\"",
                "w.yaml:10:1: aps: unknown key; did you mean apps?",
            ])
    }

    @Test func `A missing configuration file is reported in one line`() {
        let error = #expect(throws: ConfigurationError.self) {
            try WorkerConfiguration.load(file: "/nonexistent/w.yaml")
        }
        #expect(error?.lines == ["cannot read /nonexistent/w.yaml: No such file or directory"])
    }

    @Test(arguments: [("/tmp", "Is a directory"), ("/dev/zero", "it is larger than 1048576 bytes")])
    func `The error for an unreadable file names the file and the reason`(path: String, reason: String) {
        #expect(throws: FileError(path: path, reason: reason)) { try readFile(path) }
    }

    @Test func `Secrets appear neither in dumps nor in errors`() throws {
        let secret = "hunter2hunter2"
        let text = """
            kafka: {bootstrap_servers: a, librdkafka: {sasl.password: \(secret)}}
            apps:
              - {name: a, bundle_ids: [b], token: {key: \(secret), key_id: ABC123DEFG, team_id: TEAM123456}}
            """
        var output = ""
        dump(try load(text), to: &output)
        #expect(output.contains("sasl.password"))
        #expect(!output.contains(secret))
        #expect(!"\(try load(text))".contains(secret))
        #expect(!errors(text.replacing("key_id: ABC123DEFG, ", with: "key: [\(secret)], ")).isEmpty)
        for line in errors(text.replacing("key_id", with: "key_file")) { #expect(!line.contains(secret)) }
        let other = """
            kafka: {bootstrap_servers: a}
            apps:
              - name: a
                bundle_ids: [b]
                proxy: http://u:\(secret)@proxy:3128
                certificate: {pem: \(secret), key: \(secret), passphrase: \(secret)}
            """
        output = ""
        dump(try load(other), to: &output)
        #expect(output.contains("3128"))
        #expect(!output.contains(secret))
        #expect(!"\(try load(other))".contains(secret))
        for line in errors(other.replacing(":3128", with: "")) { #expect(!line.contains(secret)) }
    }
}
