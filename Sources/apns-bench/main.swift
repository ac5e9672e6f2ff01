import CNghttp2
import COpenSSL
import Glibc

// What must not be measured in Python is in this program: the parts of the worker in memory, the floors and the
// servers. The commands that people use, `apns-bench [OPTIONS]` and `apns-bench guard`, are the Python beside this
// file, which starts this program again for each process that it measures.

signal(SIGPIPE, SIG_IGN)
exit(run(Array(CommandLine.arguments.dropFirst())))

private func run(_ words: [String]) -> Int32 {
    let rest = Array(words.dropFirst())
    do {
        switch words.first {
        case "part": try PartCommand.run(rest)
        case "send-floor": say("\(try SendFloor(rest).run())\n")
        case "kafka-floor": say("\(try KafkaFloor(rest).run())\n")
        case "probe-server": try runProbeServer(rest.first ?? "")
        case "gateway-sink": try runSinkServer(rest.first ?? "")
        case "certificates": try writeCertificates(to: rest.first ?? "")
        case "versions": say(versions())
        default: try becomeDriver(words)
        }
        return 0
    } catch {
        complain("apns-bench: \(error)")
        return 1
    }
}

/// The libraries that decide how many instructions a part takes.
private func versions() -> String {
    """
    nghttp2 \(String(cString: nghttp2_version(0).pointee.version_str))
    openssl \(String(cString: OpenSSL_version(OPENSSL_VERSION_STRING)))

    """
}

/// Replaces this process by the driver. `APNS_BENCH` tells it where this program is.
private func becomeDriver(_ words: [String]) throws {
    let folder = #filePath.dropLast("main.swift".count)
    let driver = "\(folder)driver/\(words.first == "guard" ? "guard.py" : "bench.py")"
    guard access(driver, R_OK) == 0 else {
        throw BenchFailure("\(driver) is not there: build apns-bench in the checkout that it runs in")
    }
    var path = [CChar](repeating: 0, count: Int(PATH_MAX))
    let count = readlink("/proc/self/exe", &path, path.count - 1)
    setenv("APNS_BENCH", String(decoding: path[..<max(0, count)].map { UInt8(bitPattern: $0) }, as: UTF8.self), 1)
    // Debian's own Python has confluent-kafka (`Docker/setup`); another that comes first on PATH may not.
    let python = getenv("APNS_WORKER_PYTHON").map { String(cString: $0) } ?? "/usr/bin/python3"
    let rest = words.first == "guard" ? Array(words.dropFirst()) : words
    var arguments = ([python, driver] + rest).map { strdup($0) } + [nil]
    execvp(python, &arguments)
    throw BenchFailure("\(python) cannot be started: \(String(cString: strerror(errno)))")
}
