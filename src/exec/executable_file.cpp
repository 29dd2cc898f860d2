#include "exec/executable_file.h"

#include <elf.h>
#include <link.h>

#include <span>

#include "base/bytes.h"

namespace popxl::exec {
namespace {

constexpr uint64_t kMagic = 0x0A4558454C505850;  // "PXPLEXE\n"
constexpr uint32_t kVersion = 1;                 // of this layout

/// Everything up to the results.
void readDigests(ByteReader& from, const Digest& build, Executable& to, FileFault& fault) {
  fault = FileFault::kNotOne;
  if (from.take<uint64_t>() != kMagic || !from.ok()) return;
  fault = FileFault::kOtherBuild;
  if (from.take<uint32_t>() != kVersion || from.take<Digest>() != build) {
    if (!from.ok()) fault = FileFault::kDamaged;
    return;
  }
  to.ir = from.take<Digest>();
  const size_t graphs = from.takeCount(sizeof(Digest));
  for (size_t i = 0; i < graphs; ++i) to.graphs.push_back(from.take<Digest>());
  fault = from.ok() ? FileFault::kNone : FileFault::kDamaged;
}

/// The build id that the linker put into the object that has `address`, from its notes.
struct NoteSearch {
  const void* address;
  std::string_view found;

  static int visit(dl_phdr_info* object, size_t, void* search) {
    return static_cast<NoteSearch*>(search)->look(*object) ? 1 : 0;
  }

  bool look(const dl_phdr_info& object) {
    const std::span<const ElfW(Phdr)> segments(object.dlpi_phdr, object.dlpi_phnum);
    const auto wanted = reinterpret_cast<uintptr_t>(address);
    bool ours = false;
    for (const ElfW(Phdr) & s : segments) {
      const uintptr_t start = object.dlpi_addr + s.p_vaddr;
      ours = ours || (s.p_type == PT_LOAD && wanted >= start && wanted < start + s.p_memsz);
    }
    if (!ours) return false;
    for (const ElfW(Phdr) & s : segments) {
      if (s.p_type != PT_NOTE) continue;
      const auto* start = reinterpret_cast<const char*>(object.dlpi_addr + s.p_vaddr);
      lookInNotes({start, s.p_memsz}, s.p_align == 8 ? 8 : 4);
    }
    return true;
  }

  void lookInNotes(std::string_view notes, size_t alignment) {
    const auto padded = [&](size_t n) { return (n + alignment - 1) / alignment * alignment; };
    while (notes.size() >= sizeof(ElfW(Nhdr))) {
      ElfW(Nhdr) header;
      notes.copy(reinterpret_cast<char*>(&header), sizeof(header));
      const size_t name = sizeof(header), content = padded(name + header.n_namesz);
      const size_t end = padded(content + header.n_descsz);
      if (end > notes.size()) return;
      if (header.n_type == NT_GNU_BUILD_ID && notes.substr(name, 4) == std::string_view("GNU\0", 4))
        found = notes.substr(content, header.n_descsz);
      notes.remove_prefix(end);
    }
  }
};

}  // namespace

std::string_view describe(FileFault fault) {
  switch (fault) {
    case FileFault::kNone:
      return "an executable";
    case FileFault::kNotOne:
      return "an executable (it is another kind of file)";
    case FileFault::kOtherBuild:
      return "an executable of this build of the library";
    case FileFault::kDamaged:
      break;
  }
  return "a whole executable (it is damaged)";
}

std::string encode(const Executable& executable, const Digest& build) {
  ByteWriter to;
  to.add(kMagic).add(kVersion).add(build).add(executable.ir);
  to.add(static_cast<uint64_t>(executable.graphs.size()));
  for (const Digest& graph : executable.graphs) to.add(graph);
  to.add(static_cast<uint64_t>(executable.results.size()));
  for (const auto& [key, result] : executable.results) to.add(key).addString(result);
  to.add(sha256(to.bytes()));
  return std::move(to.bytes());
}

std::optional<Executable> decode(std::string_view bytes, const Digest& build, FileFault& fault) {
  Executable out;
  ByteReader digests(bytes);
  readDigests(digests, build, out, fault);
  if (fault != FileFault::kNone) return std::nullopt;
  fault = FileFault::kDamaged;
  if (bytes.size() < sizeof(Digest)) return std::nullopt;
  const std::string_view content = bytes.substr(0, bytes.size() - sizeof(Digest));
  if (ByteReader(bytes.substr(content.size())).take<Digest>() != sha256(content)) return std::nullopt;
  out = {};
  ByteReader from(content);
  readDigests(from, build, out, fault);
  const size_t results = from.takeCount(sizeof(Digest) + sizeof(uint64_t));
  for (size_t i = 0; i < results && from.ok(); ++i) {
    const auto key = from.take<Digest>();
    out.results.emplace_back(key, from.takeString());
  }
  fault = from.atEnd() ? FileFault::kNone : FileFault::kDamaged;
  return from.atEnd() ? std::optional(std::move(out)) : std::nullopt;
}

std::optional<Executable> peek(std::string_view beginning, const Digest& build, FileFault& fault) {
  Executable out;
  ByteReader from(beginning);
  readDigests(from, build, out, fault);
  return fault == FileFault::kNone ? std::optional(std::move(out)) : std::nullopt;
}

std::optional<Digest> buildId() {
  static const std::optional<Digest> kId = [] {
    NoteSearch search{reinterpret_cast<const void*>(&kMagic), {}};
    dl_iterate_phdr(&NoteSearch::visit, &search);
    return search.found.empty() ? std::nullopt : std::optional(sha256(search.found));
  }();
  return kId;
}

}  // namespace popxl::exec
