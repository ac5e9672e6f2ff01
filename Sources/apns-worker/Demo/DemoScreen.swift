import EventLoop
import Glibc
import Observability
import PushRecords
import Worker

/// Where the demo shows how far it is: one line drawn again and again on a terminal, a plain line a second otherwise,
/// unless it is the one before. Log lines of the worker come between without tearing it. Any thread.
final class DemoScreen: LogSink {
    private struct State {
        /// A progress line is on the terminal's last line.
        var isDrawn = false
        /// What was shown last where there is no terminal.
        var last = ""
    }

    private let isTerminal = isatty(STDOUT_FILENO) == 1
    private let state = Guarded(State())

    /// How often `show` should be called.
    var intervalNs: Int64 { isTerminal ? 100_000_000 : 1_000_000_000 }

    /// Shows how many of `total` notifications have settled, and how fast.
    func show(_ books: DemoBooks, of total: Int, rate: Int, _ worker: WorkerProgress) {
        let ended = zip(Outcome.allCases, books.outcomes).filter { $0.1 > 0 }.map {
            "\($0.0.rawValue) \(grouped($0.1))"
        }
        let parts =
            [
                "\(books.settled * 100 / total)% \(grouped(books.settled))/\(grouped(total))", "\(grouped(rate))/s",
                "in flight \(grouped(worker.inFlight))", "connections \(worker.connections)",
            ] + ended + (books.deadLetters > 0 ? ["dead letters \(grouped(books.deadLetters))"] : [])
        let full = min(20, books.settled * 20 / total)
        let bar = String(repeating: "█", count: full) + String(repeating: "░", count: 20 - full)
        let text = parts.joined(separator: "  ")
        show(worker.hasJoined ? text : "the worker joins its consumer groups, which takes some seconds", bar: bar)
    }

    private func show(_ line: String, bar: String) {
        state.withLock { state in
            if isTerminal {
                say("\r\u{1B}[K\(String("\(bar)  \(line)".prefix(width - 1)))")
                state.isDrawn = true
            } else if line != state.last {
                say(line + "\n")
                state.last = line
            }
        }
    }

    /// Text for people, on lines of its own.
    func tell(_ text: String) {
        state.withLock { state in
            say((state.isDrawn ? "\n" : "") + text + "\n")
            state.isDrawn = false
        }
    }

    @discardableResult func write(_ lines: [UInt8]) -> Bool {
        state.withLock { state in
            if state.isDrawn { say("\r\u{1B}[K") }
            state.isDrawn = false
            return DescriptorSink.standardError.write(lines)
        }
    }

    private var width: Int {
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 20 else { return 80 }
        return Int(size.ws_col)
    }
}
