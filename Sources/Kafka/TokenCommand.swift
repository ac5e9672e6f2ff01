import CRdkafka
import Glibc
import JSON

/// A command that prints tokens for SASL's mechanism OAUTHBEARER (RFC 7628), for issuers from which librdkafka cannot
/// fetch tokens itself.
///
/// The output is a token response of RFC 6749, section 5.1: a JSON object with the members `access_token` and
/// `expires_in`, a number of seconds. Other members are ignored. The standard error is this process's standard error.
struct TokenCommand {
    let text: String
    /// The command's time limit in seconds. The client connects to no broker before it has a token.
    var limit = 20

    struct Token: Equatable {
        var value: String
        /// The token's lifetime in seconds.
        var lifetime: Int64
    }

    /// The maximum length of the output. Kafka's brokers accept SASL messages of up to 512 KiB.
    private static let lengthLimit = 65_536

    /// A property that this module replaces by a callback. librdkafka's own value would be `oidc`.
    static let method = KafkaProperty("sasl.oauthbearer.method", "command")

    static func properties(_ command: String) -> [KafkaProperty] {
        KafkaProperty.list(["sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.config": command]) + [method]
    }

    /// Makes the client request tokens from the command in the property `sasl.oauthbearer.config`.
    static func prepare(_ configuration: OpaquePointer) {
        unsafe rd_kafka_conf_enable_sasl_queue(configuration, 1)
        unsafe rd_kafka_conf_set_oauthbearer_token_refresh_cb(configuration) { client, command, _ in
            guard let client = unsafe client, let command = unsafe command else { return }
            unsafe TokenCommand(text: String(cString: command)).renew(tokenOf: client)
        }
    }

    /// Lets librdkafka's background thread run the command: when the client starts, after 80 % of a token's lifetime,
    /// and ten seconds after a failure.
    static func start(_ client: OpaquePointer) throws(KafkaError) {
        try unsafe check(rd_kafka_sasl_background_callbacks_enable(client))
    }

    private func renew(tokenOf client: OpaquePointer) {
        do throws(CommandFailure) {
            let token = try run()
            let endMs = (Int64(time(nil)) + token.lifetime) * 1_000
            let code = unsafe rd_kafka_oauthbearer_set_token(
                // Pass no buffer for librdkafka's reason, because the reason may quote the token.
                client, token.value, endMs, rd_kafka_name(client), nil, 0, nil, 0)
            guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
                throw CommandFailure("printed a token that librdkafka rejects")
            }
        } catch {
            // librdkafka reports the failure as an authentication error of the client.
            unsafe rd_kafka_oauthbearer_set_token_failure(client, "kafka.oauth.command \(error)")
        }
    }

    /// Runs the command in a shell. The error's text continues a sentence that begins with the command's key. It never
    /// contains the output, which may be a secret.
    func run() throws(CommandFailure) -> Token {
        // timeout(1) ends the command with SIGKILL, because this thread's children inherit that it blocks signals.
        let quoted = "'" + text.replacing("'", with: #"'\''"#) + "'"
        guard let output = unsafe popen("exec timeout --signal=KILL \(limit) /bin/sh -c \(quoted)", "re") else {
            throw CommandFailure("could not be started: \(unsafe String(cString: strerror(errno)))")
        }
        var bytes = [UInt8](repeating: 0, count: Self.lengthLimit + 1)
        let length = unsafe fread(&bytes, 1, bytes.count, output)
        let status = unsafe pclose(output)
        guard length <= Self.lengthLimit else { throw CommandFailure("printed more than \(Self.lengthLimit) bytes") }
        switch (status & 0x7F, status >> 8 & 0xFF) {
        case (0, 0): break
        case (SIGKILL, _), (0, 128 + SIGKILL): throw CommandFailure("was killed, or did not end within \(limit) s")
        case (0, let code): throw CommandFailure("exited with \(code)")
        case (let signal, _): throw CommandFailure("ended with signal \(signal)")
        }
        guard let token = Self.token(in: bytes[..<length]) else {
            throw CommandFailure(
                "printed no JSON object with access_token (an ASCII text) and expires_in (a number of seconds above 0)")
        }
        return token
    }

    private static func token(in output: ArraySlice<UInt8>) -> Token? {
        var token = Token(value: "", lifetime: 0)
        do {
            try unsafe output.withUnsafeBytes { bytes in
                var reader = try unsafe JSONReader(bytes)
                try reader.enterObject()
                while let member = reader.nextMember() {
                    switch member.string {
                    case "access_token": token.value = try reader.text().string
                    case "expires_in": token.lifetime = try reader.integer()
                    default: _ = unsafe reader.skip()
                    }
                }
            }
        } catch {
            return nil
        }
        // A token has no other characters (RFC 6749, appendix A.12). librdkafka's error would quote it.
        let isVisible = token.value.utf8.allSatisfy { (0x20...0x7E).contains($0) }
        return token.value.isEmpty || !isVisible || !(1...1_000_000_000).contains(token.lifetime) ? nil : token
    }
}
