import Glibc

/// The programs a run needs, looked for before anything takes time.
struct Programs {
    /// `nil`: it is not installed; the bare loop is the send floor then.
    let h2load: String?
    let worker: String
    /// `nil`: the broker is somebody else's.
    let java: String?

    init(_ options: BenchOptions) throws(BenchFailure) {
        h2load = Self.find("h2load")
        worker = options.worker.isEmpty ? Self.own.directory + "/apns-worker" : options.worker
        guard access(worker, X_OK) == 0 else {
            throw BenchFailure("there is no worker at \(worker): swift build -c release --product apns-worker")
        }
        if !options.subjects.isDisjoint(with: Subject.onPushServer) { _ = try Self.nghttpd() }
        guard options.bootstrapServers.isEmpty else {
            java = nil
            return
        }
        guard !options.kafkaHome.isEmpty else {
            throw BenchFailure(
                "needs a Kafka broker: set KAFKA_HOME (to start one) or KAFKA_BOOTSTRAP_SERVERS (to use one)")
        }
        guard access(options.kafkaHome + "/libs", R_OK) == 0 else {
            throw BenchFailure("KAFKA_HOME names \(options.kafkaHome), which has no libs folder")
        }
        java = try Self.find("java", package: "openjdk-17-jre-headless")
    }

    static func nghttpd() throws(BenchFailure) -> String {
        try Self.find("nghttpd", package: "nghttp2-server")
    }

    /// This program.
    static var own: (path: String, directory: String) {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = max(0, readlink("/proc/self/exe", &buffer, buffer.count))
        let path = String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return (path, path.lastIndex(of: "/").map { String(path[..<$0]) } ?? ".")
    }

    /// Debian keeps servers in /usr/sbin, which not everybody has in PATH.
    static func find(_ name: String) -> String? {
        let path = getenv("PATH").map { String(cString: $0) } ?? ""
        let searched = path.split(separator: ":").map { String($0) } as [String]
        for directory in searched + ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"] {
            let candidate = "\(directory)/\(name)"
            if access(candidate, X_OK) == 0 { return candidate }
        }
        return nil
    }

    /// The same of what the run needs.
    static func find(_ name: String, package: String) throws(BenchFailure) -> String {
        guard let path = find(name) else {
            throw BenchFailure("\(name) is not installed (Debian: apt install \(package))")
        }
        return path
    }
}
