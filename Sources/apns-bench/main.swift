import CFloors
import CNghttp2
import COpenSSL
import Glibc
import Kafka
import TLS

// Runs the measured code: the worker's parts without a network, and the minimal nghttp2 and librdkafka programs that
// the worker is compared with. Python would distort these measurements. The Python files in `driver` implement the
// commands `apns-bench [OPTIONS]` and `apns-bench guard`, which run this program as a child process.

signal(SIGPIPE, SIG_IGN)
exit(run(Array(CommandLine.arguments.dropFirst())))

private func run(_ words: [String]) -> Int32 {
    let rest = Array(words.dropFirst())
    do {
        switch words.first {
        case "part": try PartCommand.run(rest)
        case "send-floor": print(try sendFloor(rest))
        case "kafka-floor": print(try kafkaFloor(rest))
        case "tokens":
            var source = TokenSource()
            for _ in 0..<(rest.first.flatMap { Int($0) } ?? 0) { print(source.next()) }
        case "certificates": try writeCertificates(to: rest.first ?? "")
        case "versions":
            print("nghttp2 \(String(cString: nghttp2_version(0).pointee.version_str))")
            print("openssl \(String(cString: OpenSSL_version(OPENSSL_VERSION_STRING)))")
        default: try becomeDriver(words)
        }
        return 0
    } catch {
        "apns-bench: \(error)\n".withCString { _ = write(STDERR_FILENO, $0, strlen($0)) }
        return 1
    }
}

/// Runs the command `send-floor PORT AUTHORITY CONNECTIONS COUNT DEVICES`.
private func sendFloor(_ words: [String]) throws -> Int64 {
    let numbers = words.map { Int32($0) ?? 0 }
    guard numbers.count == 5 else { throw BenchFailure("send-floor takes five arguments") }
    let tokens = PartInputs.tokens(Int(numbers[4])).map { String(decoding: $0, as: UTF8.self) }.joined()
    // The placeholder is about as long as a real provider token: header, claims and a 64-byte signature in base64url.
    let authorization = "bearer \(String(repeating: "eyJhbGciOiJFUzI1NiIs", count: 9))"
    return send_floor(
        numbers[0], words[1], numbers[2], Int64(numbers[3]), tokens, numbers[4], Traffic.payload(0), authorization,
        Traffic.bundleID)
}

/// Runs the command `kafka-floor SERVERS REQUESTS RESULTS PARTITIONS COUNT`.
private func kafkaFloor(_ words: [String]) throws -> Int64 {
    guard words.count == 5, let partitions = Int32(words[3]), let count = Int64(words[4]) else {
        throw BenchFailure("kafka-floor takes five arguments")
    }
    // Use the worker's properties, so that linger time and compression are those of the worker.
    var cluster = ClusterSettings(bootstrapServers: words[0])
    cluster.waitsForMore = true
    let properties =
        ProducerSettings(cluster: cluster).all
        .filter { $0.name != "log.queue" }.flatMap { [$0.name, $0.value] } + ["log_level", "0"]
    var texts = properties.map { UnsafePointer(strdup($0)) }
    return kafka_floor(words[0], words[1], words[2], partitions, count, &texts, Int32(texts.count))
}

/// Runs `certificates DIRECTORY`, which writes a CA certificate, a server certificate, a client certificate for the
/// binary protocol, and a signing key for provider tokens.
private func writeCertificates(to directory: String) throws {
    let authority = try CertificateAuthority(commonName: "apns-bench")
    let server = try authority.issueServer()
    let client = try authority.issueClient(bundleID: Traffic.bundleID)
    for (name, text) in [
        ("ca.pem", authority.certificatePEM), ("server.pem", server.certificatePEM), ("server.key", server.keyPEM),
        ("client.pem", client.certificatePEM), ("client.key", client.keyPEM),
        ("AuthKey.p8", try SelfSigned.privateKey()),
    ] {
        guard let stream = fopen("\(directory)/\(name)", "we") else {
            throw BenchFailure("\(directory)/\(name) cannot be written: \(String(cString: strerror(errno)))")
        }
        defer { fclose(stream) }
        fputs(text, stream)
    }
}

/// Replaces this process with the driver. The environment variable `APNS_BENCH` tells the driver this program's path.
private func becomeDriver(_ words: [String]) throws {
    let folder = #filePath.dropLast("main.swift".count)
    let driver = "\(folder)driver/\(words.first == "guard" ? "guard.py" : "bench.py")"
    guard access(driver, R_OK) == 0 else {
        throw BenchFailure("\(driver) does not exist: build apns-bench in the checkout in which you run it")
    }
    guard let program = realpath("/proc/self/exe", nil) else { throw BenchFailure("/proc is not mounted") }
    setenv("APNS_BENCH", program, 1)
    // Use Debian's Python, for which `Docker/setup` installs confluent-kafka. Another Python in PATH may lack it.
    let python = getenv("APNS_WORKER_PYTHON").map { String(cString: $0) } ?? "/usr/bin/python3"
    let rest = words.first == "guard" ? Array(words.dropFirst()) : words
    var arguments = ([python, driver] + rest).map { strdup($0) } + [nil]
    execvp(python, &arguments)
    throw BenchFailure("\(python) cannot be started: \(String(cString: strerror(errno)))")
}
