import EventLoop
import Glibc
import Observability
import PushRecords

/// Where the demo shows how far it is: one line drawn again and again on a terminal, a plain line a second otherwise,
/// unless it is the one before. Log lines of the worker come between without tearing it. Any thread.
final class DemoScreen: LogSink {
    private let isTerminal = isatty(STDOUT_FILENO) == 1
    /// A progress line is on the terminal's last line.
    private let isDrawn = Guarded(false)
    /// What was shown last where there is no terminal.
    private let lastLine = Guarded("")

    /// How often `show` should be called, in milliseconds.
    var intervalMs: Int { isTerminal ? 100 : 1_000 }

    func show(_ progress: DemoProgress) {
        isDrawn.withLock { isDrawn in
            if isTerminal {
                say("\r\u{1B}[K\(progress.line(width: width, withBar: true))")
                isDrawn = true
            } else {
                let line = progress.line(width: nil, withBar: false)
                let isNew = lastLine.withLock { last in
                    defer { last = line }
                    return line != last
                }
                if isNew { say(line + "\n") }
            }
        }
    }

    /// Text for people, on lines of its own.
    func tell(_ text: String) {
        isDrawn.withLock { isDrawn in
            if isDrawn { say("\n") }
            isDrawn = false
            say(text + "\n")
        }
    }

    @discardableResult func write(_ lines: [UInt8]) -> Bool {
        isDrawn.withLock { isDrawn in
            if isDrawn { say("\r\u{1B}[K") }
            isDrawn = false
            return DescriptorSink.standardError.write(lines)
        }
    }

    private var width: Int? {
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 20 else { return 80 }
        return Int(size.ws_col)
    }
}

/// How far the demo is.
struct DemoProgress {
    var total: Int
    /// Notifications with a result, and dead letters.
    var settled = 0
    /// Notifications a second, of late.
    var rate = 0
    var inFlight = 0
    var connections = 0
    var outcomes = [Int](repeating: 0, count: Outcome.allCases.count)
    var deadLetters = 0
    /// Nothing is produced before the worker has its partitions.
    private var isJoining = false

    /// Before the first record.
    static var joining: DemoProgress {
        var progress = DemoProgress(total: 0)
        progress.isJoining = true
        return progress
    }

    init(total: Int) { self.total = total }

    /// One line, cut to `width` columns.
    func line(width: Int?, withBar: Bool) -> String {
        if isJoining { return "the worker joins its consumer groups, which takes some seconds" }
        var parts: [String] = []
        if withBar {
            let cells = 20
            let full = total == 0 ? cells : min(cells, settled * cells / total)
            parts.append(String(repeating: "█", count: full) + String(repeating: "░", count: cells - full))
        }
        let percent = total == 0 ? 100 : settled * 100 / total
        parts.append("\(percent)% \(grouped(settled))/\(grouped(total))")
        parts.append("\(grouped(rate))/s")
        parts.append("in flight \(grouped(inFlight))")
        parts.append("connections \(connections)")
        let ended = zip(Outcome.allCases, outcomes).filter { $0.1 > 0 }.map { "\($0.0.rawValue) \(grouped($0.1))" }
        parts += ended + (deadLetters > 0 ? ["dead letters \(grouped(deadLetters))"] : [])
        let text = parts.joined(separator: "  ")
        return width.map { String(text.prefix($0 - 1)) } ?? text
    }
}

/// Digits in groups of three: `1,234,567`.
func grouped(_ number: Int) -> String {
    var text = ""
    let digits = String(number.magnitude)
    for (place, digit) in digits.enumerated() {
        if place > 0, (digits.count - place) % 3 == 0 { text += "," }
        text.append(digit)
    }
    return number < 0 ? "-\(text)" : text
}
