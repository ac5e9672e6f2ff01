import PushRecords

/// The circuit of the apps that share a credential and an environment.
struct CredentialCircuit {
    /// `AppRoute.ownCredential`: of `soleApp` alone.
    var credential: Int
    var environment: PushEnvironment
    /// -1: of all that have the credential.
    var soleApp: Int
    /// The app by which it was told of when it opened.
    var name = -1
    var circuit = Circuit()
}
