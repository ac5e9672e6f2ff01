/// What callgrind counted: the cost of each function by itself, and how often functions called each other.
///
/// Reads the format of "Callgrind Format Specification" (valgrind's manual), as far as callgrind writes it: one event,
/// or the first of several; jumps are left out.
struct CallgrindFile {
    /// A function of one object file; callgrind tells them apart by both.
    struct Function: Hashable {
        /// Path of the program or library; "???" where it is unknown.
        var object: String
        /// The symbol; C++ is demangled, Swift is not.
        var name: String
    }

    struct Call: Hashable {
        /// Places in `functions`.
        var caller: Int
        var callee: Int
    }

    struct Failure: Error, CustomStringConvertible {
        var line: Int
        var reason: String
        var description: String { "line \(line) of callgrind's output: \(reason)" }
    }

    private(set) var functions: [Function] = []
    /// By place in `functions`: the event's cost in the function itself.
    private(set) var selfCosts: [Int64] = []
    private(set) var calls: [Call: Int64] = [:]
    /// As callgrind itself added it up; `nil`: it is not there, so the file was cut off.
    private(set) var total: Int64?

    private var places: [Function: Int] = [:]

    /// - Throws: `Failure` where a line cannot be read, or where the file is cut off.
    init(_ text: String) throws(Failure) {
        var reader = Reader()
        var number = 0
        for line in text.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
            number += 1
            guard !line.isEmpty else { continue }
            do throws(Unreadable) {
                try take(Substring(line), &reader)
            } catch {
                throw Failure(line: number, reason: error.reason)
            }
        }
        guard total != nil else { throw Failure(line: number, reason: "it ends without its totals") }
    }

    private struct Unreadable: Error { var reason: String }

    /// Where the reading is.
    private struct Reader {
        var positions = 1
        var objects: [Int: String] = [:]
        var names: [Int: String] = [:]
        var object = "???"
        var calledObject: String?
        var function: Int?
        var callee: Int?
        /// The next line of costs is what this many calls cost, together with all that the callee called.
        var pendingCalls: Int64?
    }

    private mutating func take(_ line: Substring, _ reader: inout Reader) throws(Unreadable) {
        guard let first = line.utf8.first else { return }
        switch first {
        case UInt8(ascii: "#"): return
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "*"):
            return try takeCosts(line, &reader)
        default: break
        }
        if let equals = line.firstIndex(of: "="), !line[..<equals].contains(":") {
            return try takeSpecification(line[..<equals], line[line.index(after: equals)...], &reader)
        }
        guard let colon = line.firstIndex(of: ":") else { throw Unreadable(reason: "neither costs nor a name") }
        let value = line[line.index(after: colon)...].drop { $0 == " " }
        switch line[..<colon] {
        case "positions": reader.positions = value.split(separator: " ").count
        case "totals":
            guard let cost = value.split(separator: " ").first.flatMap({ Int64($0) }) else {
                throw Unreadable(reason: "no number of all costs")
            }
            total = cost
        default: break
        }
    }

    private mutating func takeSpecification(
        _ kind: Substring, _ value: Substring, _ reader: inout Reader
    ) throws(Unreadable) {
        switch kind {
        case "ob": reader.object = try Self.name(value, &reader.objects)
        case "cob": reader.calledObject = try Self.name(value, &reader.objects)
        case "fn":
            reader.function = place(of: Function(object: reader.object, name: try Self.name(value, &reader.names)))
        case "cfn":
            let name = try Self.name(value, &reader.names)
            reader.callee = place(of: Function(object: reader.calledObject ?? reader.object, name: name))
        case "calls":
            guard let count = value.split(separator: " ").first.flatMap({ Int64($0) }) else {
                throw Unreadable(reason: "no number of calls")
            }
            reader.pendingCalls = count
        default: break  // Files, and what is not looked at.
        }
    }

    /// `(12) name` gives a name its number, `(12)` repeats it.
    private static func name(_ value: Substring, _ known: inout [Int: String]) throws(Unreadable) -> String {
        guard value.first == "(", let end = value.firstIndex(of: ")"),
            let number = Int(value[value.index(after: value.startIndex)..<end])
        else { return String(value) }
        let name = value[value.index(after: end)...].drop { $0 == " " }
        if !name.isEmpty { known[number] = String(name) }
        guard let name = known[number] else { throw Unreadable(reason: "(\(number)) was not named before") }
        return name
    }

    private mutating func takeCosts(_ line: Substring, _ reader: inout Reader) throws(Unreadable) {
        guard let function = reader.function else { throw Unreadable(reason: "costs of no function") }
        let fields = line.split(separator: " ")
        // Costs that are left out are none.
        let cost = fields.count > reader.positions ? Int64(fields[reader.positions]) : 0
        guard let cost, fields.count >= reader.positions else { throw Unreadable(reason: "a cost that is no number") }
        guard let count = reader.pendingCalls else {
            selfCosts[function] += cost
            return
        }
        guard let callee = reader.callee else { throw Unreadable(reason: "calls of no function") }
        calls[Call(caller: function, callee: callee), default: 0] += count
        reader.pendingCalls = nil
        reader.callee = nil
        reader.calledObject = nil
    }

    private mutating func place(of function: Function) -> Int {
        if let place = places[function] { return place }
        places[function] = functions.count
        functions.append(function)
        selfCosts.append(0)
        return functions.count - 1
    }
}
