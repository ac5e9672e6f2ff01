import Foundation
import TestSupport

/// What a process has taken so far (proc(5)).
extension ChildProcess {
    /// User and system time, in seconds.
    func processorSeconds() throws -> Double {
        let text = try String(contentsOfFile: "/proc/\(workerID)/stat", encoding: .utf8)
        guard let end = text.lastIndex(of: ")") else { throw Unexpected(text) }
        let fields = text[end...].split(separator: " ")
        guard fields.count > 13, let user = Double(fields[12]), let system = Double(fields[13]) else {
            throw Unexpected(text)
        }
        return (user + system) / 100
    }

    /// Resident memory now, in KiB.
    func residentKilobytes() throws -> Int { try kilobytes("VmRSS") }

    /// The most resident memory so far, in KiB.
    func largestResidentKilobytes() throws -> Int { try kilobytes("VmHWM") }

    private func kilobytes(_ name: String) throws -> Int {
        let status = try String(contentsOfFile: "/proc/\(workerID)/status", encoding: .utf8)
        guard let line = status.split(separator: "\n").first(where: { $0.hasPrefix("\(name):") }),
            let kilobytes = line.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap({ Int($0) })
        else { throw Unexpected("no \(name) in \(status)") }
        return kilobytes
    }
}
