import Glibc
import PushRecords

/// A file that records the requests in arrival order. A restarted simulator restores its `Books` from this file.
///
/// Each entry is written with one system call, so it survives a crash of the process, but not of the machine. The file
/// begins with an 8-byte header. Each entry takes about 50 bytes: outcome, reason, token length, `apns-id` and token
/// bytes. Not thread-safe.
final class BookFile {
    struct Entry {
        var outcome: RequestOutcome
        var id: NotificationUUID
        /// The device token's bytes, valid only during the call to which the entry is passed.
        var token: UnsafeRawBufferPointer
    }

    private static let head: [UInt8] = Array("APNSBK2\n".utf8)
    private static let entryHead = 19

    let path: String
    private let descriptor: Int32
    private var entry: [UInt8] = []
    private var used: Int

    /// Opens or creates the file and locks it for this process.
    ///
    /// - Throws: A one-line error that names the file.
    init(path: String) throws(SimulatorError) {
        self.path = path
        // The file contains device tokens, so only the owner may read it.
        descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        used = Self.head.count
        guard descriptor >= 0 else { throw SimulatorError(errno: "cannot open the --book file \(path)") }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            throw SimulatorError("the --book file \(path) is in use by another simulator: name another file")
        }
        let size = Int(lseek(descriptor, 0, SEEK_END))
        if size == 0 {
            guard pwrite(descriptor, Self.head, used, 0) == used else {
                throw SimulatorError(errno: "cannot write the --book file \(path)")
            }
            return
        }
        var head = [UInt8](repeating: 0, count: used)
        guard pread(descriptor, &head, used, 0) == used, head == Self.head else { throw foreign }
        used = size
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Passes every entry to `body`. Removes an incomplete last entry, which a crash during a write can leave.
    ///
    /// - Throws: A one-line error if the file cannot be read or an entry is damaged.
    func forEach(_ body: (Entry) -> Void) throws(SimulatorError) {
        let size = used
        guard let memory = mmap(nil, size, PROT_READ, MAP_PRIVATE, descriptor, 0), memory != MAP_FAILED else {
            throw SimulatorError(errno: "cannot read the --book file \(path)")
        }
        defer { munmap(memory, size) }
        var at = Self.head.count
        while at + Self.entryHead <= size {
            let count = Int(memory.load(fromByteOffset: at + 2, as: UInt8.self))
            let end = at + Self.entryHead + count
            if end > size { break }
            guard let reason = ReasonCode(rawValue: memory.load(fromByteOffset: at + 1, as: UInt8.self)),
                let outcome = RequestOutcome(code: memory.load(fromByteOffset: at, as: UInt8.self), reason: reason)
            else { throw foreign }
            let id = NotificationUUID(
                high: memory.loadUnaligned(fromByteOffset: at + 3, as: UInt64.self),
                low: memory.loadUnaligned(fromByteOffset: at + 11, as: UInt64.self))
            let token = UnsafeRawBufferPointer(start: memory + at + Self.entryHead, count: count)
            body(Entry(outcome: outcome, id: id, token: token))
            at = end
        }
        truncate(to: at)
    }

    /// Appends a request, whose token must have at most 100 bytes. Returns `false` if the write fails, for example
    /// because the disk is full.
    func append(_ request: Entry) -> Bool {
        let (code, reason) = request.outcome.code
        entry.removeAll(keepingCapacity: true)
        entry += [code, reason.rawValue, UInt8(request.token.count)]
        withUnsafeBytes(of: request.id.high) { entry += $0 }
        withUnsafeBytes(of: request.id.low) { entry += $0 }
        entry += request.token
        guard pwrite(descriptor, entry, entry.count, off_t(used)) == entry.count else {
            truncate(to: used)
            return false
        }
        used += entry.count
        return true
    }

    func reset() { truncate(to: Self.head.count) }

    private func truncate(to size: Int) {
        used = size
        _ = ftruncate(descriptor, off_t(size))
    }

    private var foreign: SimulatorError {
        SimulatorError(
            "the --book file \(path) was not written by a simulator, or is damaged: delete the file, or name another file"
        )
    }
}

/// The outcome of a request, as `Books` records it.
enum RequestOutcome: Equatable {
    /// A request that was not processed. The client learns this from REFUSED_STREAM, from a GOAWAY with a lower last
    /// stream id, or from the gateway's answer to an earlier frame. The simulator counts these requests, but does not
    /// list them under their `apns-id`.
    case notProcessed
    case accepted
    case refused(ReasonCode)
    case unanswered

    /// The outcome and its reason as the bytes that the file stores.
    fileprivate var code: (UInt8, ReasonCode) {
        switch self {
        case .notProcessed: (0, .none)
        case .accepted: (1, .none)
        case .refused(let reason): (2, reason)
        case .unanswered: (3, .none)
        }
    }

    fileprivate init?(code: UInt8, reason: ReasonCode) {
        let outcomes: [Self] = [.notProcessed, .accepted, .refused(reason), .unanswered]
        guard code < outcomes.count else { return nil }
        self = outcomes[Int(code)]
    }
}
