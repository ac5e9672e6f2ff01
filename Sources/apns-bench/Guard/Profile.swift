/// What one notification costs by callgrind's count: the difference of two runs, so that whatever happens once a
/// process is not in it.
struct Profile {
    struct Row {
        var function: CallgrindFile.Function
        var instructions: Double
    }

    struct Caller {
        var function: CallgrindFile.Function
        var count: Double
    }

    /// Instructions, all threads.
    let instructions: Double
    /// Objects and buffers on Swift's heap: calls into its allocators from outside of them.
    let swiftAllocations: Double
    /// Calls of malloc and the like by anybody but Swift's allocators.
    let cAllocations: Double
    /// The same by the file name of the library that called, the most first.
    let cAllocationsByLibrary: [(library: String, count: Double)]
    /// Who allocates on Swift's heap, the most first.
    let swiftAllocators: [Caller]
    /// Who calls malloc and the like, the most first.
    let cAllocators: [Caller]
    /// Instructions of each function itself, the most first.
    let functions: [Row]

    /// - Parameters:
    ///   - short: over `shortCount` notifications.
    ///   - long: over `longCount`, which are more.
    init(short: CallgrindFile, _ shortCount: Int, long: CallgrindFile, _ longCount: Int) {
        precondition(longCount > shortCount, "the longer run has more notifications")
        let scale = 1 / Double(longCount - shortCount)
        instructions = Double((long.total ?? 0) - (short.total ?? 0)) * scale
        let before = AllocationCounts(short)
        let after = AllocationCounts(long)
        swiftAllocations = Double(after.swift - before.swift) * scale
        cAllocations = Double(after.c - before.c) * scale
        func callers(_ family: KeyPath<AllocationCounts, [CallgrindFile.Function: Int64]>) -> [Caller] {
            after[keyPath: family]
                .map { function, count in
                    let earlier = before[keyPath: family][function, default: 0]
                    return Caller(function: function, count: Double(count - earlier) * scale)
                }
                .filter { $0.count >= 0.001 }
                .sorted { $0.count > $1.count }
        }
        swiftAllocators = callers(\.swiftByCaller)
        cAllocators = callers(\.cByCaller)
        cAllocationsByLibrary = Dictionary(grouping: cAllocators, by: \.function.library)
            .map { (library: $0.key, count: $0.value.reduce(0) { $0 + $1.count }) }
            .sorted { $0.count > $1.count }
        var costs: [CallgrindFile.Function: Int64] = [:]
        for (function, cost) in zip(long.functions, long.selfCosts) { costs[function, default: 0] += cost }
        for (function, cost) in zip(short.functions, short.selfCosts) { costs[function, default: 0] -= cost }
        functions = costs.map { Row(function: $0.key, instructions: Double($0.value) * scale) }
            .sorted { $0.instructions > $1.instructions }
    }

    /// Instructions by library, and those of our own program by Swift module; the most first.
    var modules: [(name: String, instructions: Double)] {
        var sums: [String: Double] = [:]
        for row in functions { sums[row.function.module, default: 0] += row.instructions }
        return sums.map { (name: $0.key, instructions: $0.value) }.sorted { $0.instructions > $1.instructions }
    }
}

/// Calls into allocators, each counted where it enters the first of them: one allocation is one call, however many
/// functions of the allocator it passes through.
struct AllocationCounts {
    private(set) var swift: Int64 = 0
    private(set) var c: Int64 = 0
    private(set) var swiftByCaller: [CallgrindFile.Function: Int64] = [:]
    private(set) var cByCaller: [CallgrindFile.Function: Int64] = [:]

    init(_ file: CallgrindFile) {
        let families = file.functions.map(\.allocator)
        for (call, count) in file.calls {
            guard let family = families[call.callee], families[call.caller] == nil else { continue }
            let caller = file.functions[call.caller]
            switch family {
            case .swift:
                swift += count
                swiftByCaller[caller, default: 0] += count
            case .c:
                c += count
                cByCaller[caller, default: 0] += count
            }
        }
    }
}

extension CallgrindFile.Function {
    enum Allocator { case swift, c }

    private static let swiftAllocators: Set<Substring> = [
        "swift_allocObject", "_swift_allocObject", "_swift_allocObject_", "swift_slowAlloc", "swift_slowAllocTyped",
        "swift_allocBox", "swift_bufferAllocate",
    ]
    private static let cAllocators: Set<Substring> = [
        "malloc", "calloc", "realloc", "reallocarray", "posix_memalign", "aligned_alloc", "memalign", "valloc",
        "operator new", "operator new[]",
    ]

    /// Whose heap it takes from; `nil`: it is none.
    var allocator: Allocator? {
        var plain = name.prefix { $0 != "(" && $0 != "'" && $0 != "@" }
        if let scope = plain.lastIndex(of: ":") { plain = plain[plain.index(after: scope)...] }
        if Self.swiftAllocators.contains(plain) { return .swift }
        return Self.cAllocators.contains(plain) ? .c : nil
    }

    /// The file's name without its folder.
    var library: String { object.lastIndex(of: "/").map { String(object[object.index(after: $0)...]) } ?? object }

    /// The library; with the module before it where the symbol is a Swift function of one (`$s4APNs…`: the length of a
    /// name, then the name).
    var module: String {
        guard name.hasPrefix("$s") else { return library }
        let rest = name.dropFirst(2)
        let digits = rest.prefix { $0.isASCII && $0.isNumber }
        guard let count = Int(digits), count > 0, rest.count > digits.count + count else {
            return "\(library): of Swift's library"
        }
        return "\(library): \(rest.dropFirst(digits.count).prefix(count))"
    }
}
