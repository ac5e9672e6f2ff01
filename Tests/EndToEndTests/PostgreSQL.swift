import Foundation
import Glibc
import TestSupport

/// A PostgreSQL server for one test, in its own folder and on a Unix socket only. It ends with the object.
final class PostgreSQL {
    /// The environment variables with which `psql` connects to it.
    let environment: [String: String]
    private let folder: URL
    private let server: ChildProcess

    init() throws {
        let programs = URL(fileURLWithPath: try Tool.postgres.path()).deletingLastPathComponent()
        // A socket's path has at most 107 bytes.
        let name = "postgres-\(getpid())-\(UInt32.random(in: 0...UInt32.max))"
        folder = FileManager.default.temporaryDirectory.appending(path: name)
        try FileManager.default.createDirectory(
            at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        environment = ["PGHOST": folder.path, "PGUSER": "postgres", "PGDATABASE": "postgres"]
        let data = folder.appending(path: "data").path
        // PostgreSQL refuses to run as root.
        var words: [String] = []
        if geteuid() == 0 {
            guard let user = getpwnam("postgres"), chown(folder.path, user.pointee.pw_uid, user.pointee.pw_gid) == 0
            else { throw Unexpected("there is no user postgres to run PostgreSQL as") }
            words = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--pdeathsig", "KILL", "--"]
        }
        func start(_ program: String, _ arguments: String...) throws -> ChildProcess {
            let all = words + [programs.appending(path: program).path, "-D", data] + arguments
            return try ChildProcess(all[0], Array(all.dropFirst()))
        }
        let made = try start(
            "initdb", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        guard try made.wait() == .exited(0) else { throw Unexpected("initdb: \(made.text)") }
        server = try start("postgres", "-k", folder.path, "-c", "listen_addresses=", "-c", "fsync=off")
        try server.waitFor("database system is ready to accept connections")
    }

    deinit {
        // SIGINT closes the connections and ends the server in order.
        server.signal(SIGINT)
        _ = try? server.wait()
        try? FileManager.default.removeItem(at: folder)
    }

    /// Runs statements with psql variables. Returns the last statement's rows as text, with `|` between columns.
    @discardableResult
    func run(_ statements: String, _ variables: [String: String] = [:]) throws -> String {
        let session = try session(["--no-align", "--tuples-only", "--quiet"] + variables.map { "-v\($0)=\($1)" })
        session.write(statements)
        session.closeInput()
        guard try session.wait() == .exited(0) else { throw Unexpected("psql: \(session.text)") }
        return session.text.trimmingCharacters(in: .newlines)
    }

    /// Returns a psql process that reads statements from its standard input and ends at the first error.
    func session(_ arguments: [String] = []) throws -> ChildProcess {
        try ChildProcess("psql", ["--no-psqlrc", "--set=ON_ERROR_STOP=1"] + arguments, environment: environment)
    }
}
