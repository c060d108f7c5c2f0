from engines.kit import show

show("rapid", "tiny-ar-l", "read: Mia lives in Rome. Leo has a red boat. Ada is 7 years old. Where does Mia live?")
