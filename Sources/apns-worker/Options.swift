internal import CLinux
import Configuration
import EventLoop
import Glibc
import Kafka
import Worker

extension OptionTable.Option {
    /// An option whose value is read into a member.
    init<Value>(
        _ name: String, _ letter: Character? = nil, value: String,
        to member: any WritableKeyPath<Values, Value> & Sendable,
        _ read: @escaping @Sendable (String) throws(UsageError) -> Value, _ help: String
    ) {
        self.init(name, letter, value: value, help) { values, text throws(UsageError) in
            values[keyPath: member] = try read(text)
        }
    }

    /// An option whose value is any text but the empty one.
    init(
        _ name: String, _ letter: Character? = nil, value: String,
        to member: any WritableKeyPath<Values, String?> & Sendable, _ help: String
    ) {
        self.init(
            name, letter, value: value, to: member, { text throws(UsageError) in try OptionValue.text(text) }, help)
    }

    /// An option whose value is one of several words.
    init<Value: RawRepresentable & CaseIterable & SendableMetatype>(
        _ name: String, value: String, choice member: any WritableKeyPath<Values, Value> & Sendable, _ help: String
    ) where Value.RawValue == String {
        self.init(name, value: value, to: member, { text throws(UsageError) in try OptionValue.choice(text) }, help)
    }
}

/// How records and answers are printed.
enum OutputFormat: String, CaseIterable {
    case json, text
}

/// The word before the options, for commands that take one, and what follows it.
func operand(_ arguments: [String]) -> (word: String?, rest: [String]) {
    guard let first = arguments.first, !first.hasPrefix("-") else { return (nil, arguments) }
    return (first, Array(arguments.dropFirst()))
}

/// Returns one of several words, or the exit after it was said what is wrong with the one that was given.
///
/// - Parameters:
///   - purpose: what the word is for, as in `there is no "x" to replay`.
///   - question: asks for a word that is missing.
func choice<Word: RawRepresentable & CaseIterable>(
    _ word: String?, of command: String, _ purpose: String, _ question: String, _: Word.Type = Word.self
) -> Result<Word, Exit> where Word.RawValue == String {
    if let found = word.flatMap({ Word(rawValue: $0) }) { return .success(found) }
    let words = Word.allCases.map(\.rawValue)
    let problem = word.map { "there is no \(printable($0))\(purpose)" } ?? question
    let suggestion =
        word.flatMap { nearest(to: $0, among: words) }.map { "did you mean \($0)?" }
        ?? "say one of \(words.joined(separator: ", ")) first"
    complain("\(command): \(problem); \(suggestion) (see \(command) --help)")
    return .failure(Exit(code: .wrongUsage))
}

/// Reads a command's options; prints its help or what is wrong with them, and then says how to exit.
///
/// - Parameter complaint: what is missing, or does not fit together; `nil` if nothing.
func parsed<Values>(
    _ table: OptionTable<Values>, _ arguments: [String], _ defaults: Values,
    complaint: (Values) -> String? = { _ in nil }
) -> Result<Values, Exit> {
    do throws(UsageError) {
        switch try table.parse(arguments, defaults) {
        case .values(let values):
            guard let line = complaint(values) else { return .success(values) }
            complain("\(table.command): \(line) (see \(table.command) --help)")
            return .failure(Exit(code: .wrongUsage))
        case .help:
            say(table.help)
            return .failure(Exit(code: .fine))
        }
    } catch {
        complain(error.description)
        return .failure(Exit(code: .wrongUsage))
    }
}

/// How the process is to end, after all there was to say has been said.
struct Exit: Error {
    var code: ExitCode
}

extension Result where Success == ExitCode, Failure == Exit {
    var code: ExitCode {
        switch self {
        case .success(let code): code
        case .failure(let exit): exit.code
        }
    }
}

/// A moment until which a command waits.
struct Deadline {
    private let atNs: Int64?

    /// - Parameter duration: `nil` for a moment that never comes.
    init(after duration: Duration?) { atNs = duration.map { LoopTime.read().monotonicNs + $0.nanoseconds } }

    var hasPassed: Bool { leftMs == 0 }

    /// What is left of it in milliseconds, rounded up so that it has passed when nothing is left.
    var leftMs: Int64 { atNs.map { max(0, ($0 - LoopTime.read().monotonicNs + 999_999) / 1_000_000) } ?? .max }

    func leftMs(atMost limitMs: Int32) -> Int32 { Int32(min(Int64(limitMs), leftMs)) }

    /// Waits until a descriptor can be read or written (poll(2)); returns false if it could not in time.
    func awaits(_ events: Int32, of descriptor: Int32) -> Bool {
        while true {
            var wanted = pollfd(fd: descriptor, events: Int16(events), revents: 0)
            let count = poll(&wanted, 1, leftMs(atMost: 1_000))
            if count > 0 { return !hasPassed }
            if count < 0, errno != EINTR { return false }
            if hasPassed { return false }
        }
    }
}

extension Duration {
    var nanoseconds: Int64 { components.seconds * 1_000_000_000 + components.attoseconds / 1_000_000_000 }
}

/// Reports what goes wrong and is tried again: at once, and then at most every ten seconds.
final class Troubles {
    private var pause = Deadline(after: .zero)

    func say(_ text: String) {
        guard pause.hasPassed else { return }
        pause = Deadline(after: .seconds(10))
        complain("\(text); trying again")
    }
}

extension BrokerWait {
    /// Waits ten seconds for each answer, and not beyond the deadline.
    init(_ cluster: ClusterSettings, until deadline: Deadline, report: ((String) -> Void)? = nil) {
        self.init(
            cluster, limitMs: 10_000, leftMs: { deadline.leftMs }, report: report ?? Troubles().say)
    }
}

/// SIGTERM and SIGINT, held back from every thread and waited for by one.
///
/// Make it before the first other thread: threads inherit the mask.
struct StopSignals: ~Copyable {
    private var set = sigset_t()

    init() {
        sigemptyset(&set)
        sigaddset(&set, SIGTERM)
        sigaddset(&set, SIGINT)
        pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    /// Returns once one of them came.
    func wait() {
        var set = set
        var signal: Int32 = 0
        while sigwait(&set, &signal) != 0 {}
    }

    /// Whether one came within the time; 0 asks whether one is pending.
    func came(withinMs milliseconds: Int) -> Bool {
        var set = set
        var time = timespec(tv_sec: milliseconds / 1_000, tv_nsec: milliseconds % 1_000 * 1_000_000)
        return sigtimedwait(&set, nil, &time) > 0
    }
}
