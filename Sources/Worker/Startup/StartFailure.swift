/// Why a worker cannot start as it is configured: each line names a thing and says what to do. `run` exits with 78.
package struct StartFailure: Error, CustomStringConvertible {
    package let lines: [String]

    package init(_ lines: [String]) { self.lines = lines }

    package var description: String { lines.joined(separator: "\n") }
}
