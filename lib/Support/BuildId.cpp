#include "minic/Support/BuildId.h"

#include <cstdint>
#include <cstring>
#include <link.h>
#include <sys/stat.h>

namespace minic {

namespace {

struct Search {
  uintptr_t address;
  bool found = false;
  std::string id, path;
};

/// The id among the notes of a segment; empty if there is none.
std::string idAmong(const char *notes, size_t size) {
  constexpr uint32_t gnuBuildId = 3; // NT_GNU_BUILD_ID, elf(5).
  auto padded = [](size_t bytes) { return (bytes + 3) / 4 * 4; };
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes, sizeof note);
    size_t whole = sizeof note + padded(note.n_namesz) + padded(note.n_descsz);
    if (whole > size)
      break;
    const char *name = notes + sizeof note, *bytes = name + padded(note.n_namesz);
    if (note.n_type == gnuBuildId && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
      std::string id;
      for (size_t i = 0; i < note.n_descsz; ++i)
        for (int shift : {4, 0})
          id += "0123456789abcdef"[(static_cast<unsigned char>(bytes[i]) >> shift) & 15];
      return id;
    }
    notes += whole;
    size -= whole;
  }
  return "";
}

int visit(dl_phdr_info *object, size_t, void *data) {
  auto &search = *static_cast<Search *>(data);
  std::string id;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr) &segment = object->dlpi_phdr[i];
    uintptr_t start = object->dlpi_addr + segment.p_vaddr;
    search.found |= segment.p_type == PT_LOAD && search.address >= start && search.address - start < segment.p_memsz;
    if (segment.p_type == PT_NOTE && id.empty())
      id = idAmong(reinterpret_cast<const char *>(start), segment.p_memsz);
  }
  if (!search.found)
    return 0;
  search.id = id;
  search.path = *object->dlpi_name ? object->dlpi_name : "/proc/self/exe";
  return 1;
}

} // namespace

std::string buildIdOf(const void *address) {
  Search search{.address = reinterpret_cast<uintptr_t>(address)};
  dl_iterate_phdr(visit, &search);
  struct stat file{};
  if (search.id.empty() && stat(search.path.c_str(), &file) == 0)
    search.id = search.path + " " + std::to_string(file.st_size) + " " + std::to_string(file.st_mtim.tv_sec) + "." +
                std::to_string(file.st_mtim.tv_nsec);
  return search.id;
}

} // namespace minic
