internal import Configuration
internal import EventLoop
internal import Glibc
internal import Kafka
internal import Observability

/// The reasons why a worker cannot start: each line names a subject and what to do. `run` exits with 78, or with 1 if
/// `isPassing` is true.
package struct StartFailure: Error, CustomStringConvertible {
    package let lines: [String]
    /// Whether a later start may succeed, because the only cause is the system's limit of threads.
    package let isPassing: Bool

    package init(_ lines: [String], isPassing: Bool = false) {
        self.lines = lines.map(namesOnce)
        self.isPassing = isPassing
    }

    package var description: String { lines.joined(separator: "\n") }

    /// Runs `body`, and throws its error as a `StartFailure`.
    static func catching<Result>(_ body: () throws -> Result) throws(StartFailure) -> Result {
        do { return try body() } catch { throw StartFailure(of: error) }
    }

    init(of error: any Error) {
        if let error = error as? SystemError, error.call == "pthread_create", error.code == EAGAIN {
            self.init(["\(error); \(KafkaCode.roomForThreads)"], isPassing: true)
        } else {
            self.init(["\(error)"], isPassing: (error as? KafkaError)?.code == .noResources)
        }
    }

    /// The reason why a Kafka client could not be created or used, with the configuration key at fault.
    init(of error: KafkaError, _ configuration: WorkerConfiguration) {
        self.init([configuration.line(of: error)], isPassing: error.code == .noResources)
    }
}

extension WorkerConfiguration {
    /// Returns the error of a librdkafka property and its valid values, but not the given value, which may be a secret.
    static func text(of error: InvalidProperty) -> String {
        let known = KafkaLibrary.knownProperties
        let name = error.property.name
        guard known.isEmpty || known.contains(where: { $0.name == name }) else {
            let suggestion = nearest(to: name, among: known.map(\.name)).map { "; did you mean \($0)?" } ?? ""
            return "librdkafka has no such property\(suggestion)"
        }
        // librdkafka's table may list a property name twice: first for the client, then for topics.
        guard let range = known.first(where: { $0.name == name })?.range, !range.isEmpty else { return error.text }
        return range.contains(" .. ")
            ? "expected a number from \(range.replacing(" .. ", with: " to "))" : "expected one of \(range)"
    }

    /// Returns a line about a client that could not be created, with the configuration key at fault and the file it
    /// names, if any.
    fileprivate func line(of error: KafkaError) -> String {
        let all = kafka.allProperties
        guard let property = all.last(where: { error.text.hasPrefix("\($0.name) ") }) else {
            // For an invalid combination, librdkafka's error quotes both properties, of which the configuration
            // possibly sets only one.
            let place = all.last { error.text.contains("`\($0.name)`") }?.place
            return place.map { "\($0): \(error.text)" } ?? "kafka: \(error)"
        }
        // Only a path may be shown, because the values of other properties may be secrets.
        guard property.name.hasSuffix(".location") else { return "\(property.place): \(error.text)" }
        // OpenSSL's error for a missing file does not say that the file is missing.
        let isReadable = access(property.value, R_OK) == 0
        let reason =
            isReadable
            ? error.text.replacing("\(property.name) failed: ", with: "cannot be used: ")
            : "cannot be read: \(String(cString: strerror(errno)))"
        return "\(property.place): \(property.value): \(reason)"
    }
}
