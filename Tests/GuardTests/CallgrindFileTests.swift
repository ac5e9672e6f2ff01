import Testing

@testable import apns_bench

@Suite("Callgrind's output")
struct CallgrindFileTests {
    /// `main` calls the library twice, and that takes from both heaps.
    static let sample = """
        # callgrind format
        version: 1
        creator: callgrind-3.19.0
        pid: 12
        cmd:  /work/bench part parse
        part: 1

        desc: I1 cache:
        desc: Trigger: Program termination

        positions: line
        events: Ir
        summary: 1000

        ob=(1) /work/bench
        fl=(1) ???
        fn=(1) main
        0 100
        cob=(2) /lib/libswiftCore.so
        cfi=(1)
        cfn=(2) swift_allocObject
        calls=3 0
        0 333
        cfn=(3) $s8Delivery4work
        calls=2 0
        0 400

        fn=(3)
        +0 50
        +0 70
        cob=(3) /lib/libc.so.6
        cfn=(4) malloc
        calls=5 0
        * 200

        ob=(2)
        fn=(2)
        0 30
        cfn=(5) swift_slowAlloc
        calls=3 0
        0 300

        fn=(5)
        0 6
        cob=(3)
        cfn=(4)
        calls=3 0
        0 290

        ob=(3)
        fn=(4)
        0 744

        totals: 1000

        """

    @Test("Costs are those of each function itself; names are found by their numbers, calls by both ends")
    func reads() throws {
        let file = try CallgrindFile(Self.sample)
        #expect(file.total == 1_000)
        let costs = Dictionary(
            uniqueKeysWithValues: zip(file.functions, file.selfCosts).map { ("\($0.library) \($0.name)", $1) })
        #expect(
            costs == [
                "bench main": 100, "bench $s8Delivery4work": 120, "libswiftCore.so swift_allocObject": 30,
                "libswiftCore.so swift_slowAlloc": 6, "libc.so.6 malloc": 744,
            ])
        let calls = Dictionary(
            uniqueKeysWithValues: file.calls.map { call, count in
                ("\(file.functions[call.caller].name) > \(file.functions[call.callee].name)", count)
            })
        #expect(
            calls == [
                "main > swift_allocObject": 3, "main > $s8Delivery4work": 2, "$s8Delivery4work > malloc": 5,
                "swift_allocObject > swift_slowAlloc": 3, "swift_slowAlloc > malloc": 3,
            ])
    }

    @Test("An allocation counts once, where it enters an allocator")
    func allocations() throws {
        let counts = AllocationCounts(try CallgrindFile(Self.sample))
        #expect(counts.swift == 3)
        #expect(counts.c == 5)
        #expect(counts.swiftByCaller.map { "\($0.key.name) \($0.value)" } == ["main 3"])
        #expect(counts.cByCaller.map { "\($0.key.name) \($0.value)" } == ["$s8Delivery4work 5"])
    }

    @Test(
        "Which functions allocate, and where functions belong",
        arguments: [
            ("swift_allocObject", "swift", "b"), ("swift_slowAlloc", "swift", "b"), ("malloc", "c", "b"),
            ("_swift_allocObject_(swift::TargetHeapMetadata<swift::InProcess> const*, unsigned long)", "swift", "b"),
            ("swift::swift_slowAllocTyped(unsigned long, unsigned long)", "swift", "b"),
            ("operator new(unsigned long)", "c", "b"), ("swift_initStackObject", "", "b"), ("free", "", "b"),
            ("$s8Delivery0A7MachineV7receive", "", "b: Delivery"), ("$sSS6appendyySSF", "", "b: of Swift's library"),
        ])
    func functions(name: String, allocator: String, module: String) {
        let function = CallgrindFile.Function(object: "/a/b", name: name)
        #expect(function.allocator.map { "\($0)" } ?? "" == allocator)
        #expect(function.module == module)
    }

    @Test("The difference of two runs is what notifications cost: what happens once is not in it")
    func difference() throws {
        let short = try CallgrindFile(Self.sample)
        let grown = Self.sample.replacing("fn=(1) main\n0 100", with: "fn=(1) main\n0 2100")
            .replacing("calls=5", with: "calls=205").replacing("totals: 1000", with: "totals: 3000")
        let profile = Profile(short: short, 50, long: try CallgrindFile(grown), 150)
        #expect(profile.instructions == 20)
        #expect(profile.swiftAllocations == 0)
        #expect(profile.cAllocations == 2)
        #expect(profile.cAllocationsByLibrary.map(\.library) == ["bench"])
        #expect(profile.functions.first?.function.name == "main")
        #expect(profile.functions.first?.instructions == 20)
    }

    @Test(
        "What cannot be read is told with its line",
        arguments: [
            ("", "line 1 of callgrind's output: it ends without its totals"),
            ("0 5", "line 1 of callgrind's output: costs of no function"),
            ("fn=(1)", "line 1 of callgrind's output: (1) was not named before"),
            ("fn=(1) a\n0 x", "line 2 of callgrind's output: a cost that is no number"),
            ("fn=(1) a\ncalls=x", "line 2 of callgrind's output: no number of calls"),
            ("fn=(1) a\ncalls=1 0\n0 5", "line 3 of callgrind's output: calls of no function"),
            ("totals: many", "line 1 of callgrind's output: no number of all costs"),
            ("nonsense", "line 1 of callgrind's output: neither costs nor a name"),
            ("fn=(1) a\n0 5\n", "line 3 of callgrind's output: it ends without its totals"),
        ])
    func refuses(text: String, reason: String) {
        let failure = #expect(throws: CallgrindFile.Failure.self) { try CallgrindFile(text) }
        #expect(failure?.description == reason)
    }
}
